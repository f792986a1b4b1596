import gc
import weakref

from segue.engine.tokens import texts
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
