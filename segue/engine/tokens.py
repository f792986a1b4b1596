"""From the parts of a prompt, text or token ids, to its tokens."""

from collections.abc import Iterable, Mapping
from itertools import accumulate
from weakref import WeakKeyDictionary, proxy

import numpy as np

from segue.engine.seam import Texts, Vocab
from segue.errors import InvalidField
from segue.types import Prompt


def prompt_tokens(
    prompt: Prompt, vocab: Vocab, field: str = "prompt", is_start: bool = True
) -> list[int]:
    """The tokens of a prompt. `is_start`: it begins the sequence; `field`: its name in errors. Raises InvalidField."""
    tokens: list[int] = []
    for position, part in enumerate(prompt.parts):
        if not isinstance(part, str):
            check_ids(part, vocab.size, field)
            tokens += part
        elif prompt.add_special and position == 0:
            tokens += vocab.tokenize(part, True, prompt.parse_special)
        else:
            tokens += text_tokens(vocab, part, is_start and not tokens, prompt.parse_special)
    return tokens


def has_added_bos(prompt: Prompt, tokens: list[int], vocab: Vocab) -> bool:
    """Whether the first of the prompt's tokens is a BOS that the tokenizer has put in front of its text."""
    is_text = prompt.add_special and isinstance(prompt.parts[0], str)
    return is_text and vocab.adds_bos and tokens[:1] == [vocab.bos]


def single_tokens(texts: Iterable[str], vocab: Vocab) -> dict[str, int]:
    """Those of the texts that are one token, control tokens too."""
    read = {text: vocab.tokenize(text, False, True) for text in texts}
    return {text: tokens[0] for text, tokens in read.items() if len(tokens) == 1}


_longest: WeakKeyDictionary[Vocab, int] = WeakKeyDictionary()


def longest_piece(vocab: Vocab) -> int:
    """Bytes of the vocabulary's longest token."""
    if vocab not in _longest:
        _longest[vocab] = max(len(vocab.piece(token)) for token in range(vocab.size))
    return _longest[vocab]


class _Texts(dict[int, bytes]):
    """Filled as tokens are asked for."""

    def __init__(self, vocab: Vocab) -> None:
        super().__init__()
        self._vocab = proxy(vocab)

    def __missing__(self, token: int) -> bytes:
        is_control = self._vocab.is_control(token)
        text = self[token] = b"" if is_control else self._vocab.piece(token)
        return text


_texts: WeakKeyDictionary[Vocab, _Texts] = WeakKeyDictionary()


def texts(vocab: Vocab) -> Mapping[int, bytes]:
    """What each token adds to a text: its bytes; of control tokens none."""
    if vocab not in _texts:
        _texts[vocab] = _Texts(vocab)
    return _texts[vocab]


_laid: WeakKeyDictionary[Vocab, dict[tuple[int, frozenset[int]], Texts]] = WeakKeyDictionary()


def laid_texts(vocab: Vocab, width: int, ends: frozenset[int]) -> Texts:
    """The same, of all tokens that a row of logits of this width has, end to end: for kernels.

    `ends`: tokens that end a text. There are few such sets for a vocabulary, and the texts are made once for each.
    """
    known = _laid.setdefault(vocab, {})
    if (width, ends) not in known:
        tokens = range(min(vocab.size, width))
        found = [b"" if vocab.is_control(token) else vocab.piece(token) for token in tokens]
        starts = np.zeros(width + 1, np.int64)
        starts[1 : len(found) + 1] = [*accumulate(map(len, found))]
        starts[len(found) + 1 :] = starts[len(found)]
        are_ends = np.zeros(width, np.uint8)
        are_ends[[token for token in ends if token < width]] = 1
        joined = np.frombuffer(b"".join(found) or b"\0", np.uint8)
        end = infill_end(vocab)
        is_known = end is not None and end < width
        known[width, ends] = Texts(starts, joined, are_ends, end if is_known else None)
    return known[width, ends]


def infill_end(vocab: Vocab) -> int | None:
    """The end token that llama.cpp's infill sampler draws."""
    return min(vocab.end_tokens, default=None) if vocab.eos is None else vocab.eos


def fewest_tokens(prompt: Prompt, vocab: Vocab) -> int:
    """A lower bound on the number of tokens, from the size of the prompt alone: nothing is tokenized."""
    num_ids = sum(len(part) for part in prompt.parts if not isinstance(part, str))
    size = sum(_num_bytes(part) for part in prompt.parts if isinstance(part, str))
    return num_ids + size // longest_piece(vocab)


def _num_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def check_ids(tokens: Iterable[int], vocab_size: int, field: str) -> None:
    for token in tokens:
        if not 0 <= token < vocab_size:
            raise InvalidField(
                f"{field} holds token id {token}, but the model's ids are 0 to {vocab_size - 1}",
                field,
            )


def text_tokens(vocab: Vocab, text: str, is_start: bool, parse_special: bool = False) -> list[int]:
    """The tokens of a text. Some vocabularies put a space before every text; unless `is_start`, it is left out."""
    if not text:
        return []
    if is_start or not _adds_space(vocab):
        return vocab.tokenize(text, False, parse_special)
    tokens = vocab.tokenize("\n" + text, False, parse_special)
    size = 0
    for index, token in enumerate(tokens):
        size += len(vocab.piece(token))
        if size == len(" \n"):
            return tokens[index + 1 :]
    return vocab.tokenize(text, False, parse_special)


def _adds_space(vocab: Vocab) -> bool:
    return vocab.piece(vocab.tokenize("a", False, False)[0])[:1] == b" "
