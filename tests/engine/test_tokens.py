import gc
import weakref
from itertools import pairwise

import numpy as np
import pytest

from segue.engine.tokens import laid_texts, texts
from segue.runners.fake import EOS, FakeVocab


def test_control_tokens_add_nothing_to_a_text() -> None:
    vocab = FakeVocab()
    found = texts(vocab)
    assert [found[token] for token in (65, EOS, 65, 200)] == [b"A", b"", b"A", b"\xc8"]
    assert texts(vocab) is found


def test_texts_go_with_their_vocabulary() -> None:
    vocab = FakeVocab()
    assert texts(vocab)[65] == b"A"
    gone = weakref.ref(vocab)
    del vocab
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("less", [-7, 0, 100])
def test_texts_are_laid_end_to_end_once(less: int) -> None:
    """A row of logits may have more tokens than the vocabulary, which add nothing, or fewer."""
    vocab = FakeVocab()
    width = vocab.size - less
    laid, each = laid_texts(vocab, width, vocab.end_tokens), texts(vocab)
    joined, starts = laid.joined.tobytes(), laid.starts.tolist()
    found = [joined[start:end] for start, end in pairwise(starts)]
    known = min(vocab.size, width)
    assert found == [each[token] for token in range(known)] + [b""] * (width - known)
    ends = [token for token in sorted(vocab.end_tokens) if token < width]
    assert np.flatnonzero(laid.are_ends).tolist() == ends
    assert laid.end == (EOS if width > EOS else None)
    assert laid_texts(vocab, width, vocab.end_tokens) is laid
    more = laid_texts(vocab, width, vocab.end_tokens | {65, 263})
    assert np.flatnonzero(more.are_ends).tolist() == sorted(
        token for token in {65, EOS, 263} if token < width
    )
