"""What may come in free text, held to trying every token, with a vocabulary of bytes, words and control tokens."""

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from segue.engine.constraints.lazy.fitting import Fitting
from segue.engine.constraints.lazy.word_watch import BEGIN, Free, WordWatch
from segue.engine.constraints.piece_index import Tokens
from segue.engine.constraints.vocabulary import Vocabulary
from segue.runners.llama.vocab import LlamaVocab
from tests.engine.constraints.tagged import AB, CALL, END, SAY, THINK, spelled

WORDS = [
    "ab c",
    "bc",
    "aab",
    "xb",
    "<call>",
    "c<think>",
    "abab",
    "b<",
    "cab",
    "é",
    "aéb",
    "€a",
    "xbb",
]


@pytest.fixture(scope="module")
def known(vocab: LlamaVocab) -> Vocabulary:
    return Vocabulary(vocab, vocab.size)


def after(words: list[str], read: bytes, piece: bytes) -> bytes | None:
    """What the grammar gets if one of the words is complete within the piece, by trying all ends."""
    whole = read + piece
    for end in range(len(read) + 1, len(whole) + 1):
        for word in words:
            if whole[:end].endswith(word.encode()):
                return word.encode() + whole[end:]
    return None


def is_text(data: bytes) -> bool:
    """Whether it is one, or is with the rest of its last character."""
    rests = {bytes((byte,)) * num for byte in (0x80, 0x90, 0xA0) for num in range(4)}
    return any((data + rest).decode(errors="ignore").encode() == data + rest for rest in rests)


class Odd(Fitting):
    """What fits hangs on the sum of its bytes."""

    def __init__(self, known: Vocabulary, kind: int) -> None:
        self._known, self._kind = known, kind

    def fits(self, text: bytes) -> bool:
        return sum(text) % 3 != self._kind

    def among(self, before: bytes, tokens: Tokens) -> NDArray[np.bool_]:
        return np.array([self.fits(before + self._known.piece(token)) for token in tokens])


def random_watch(rng: random.Random, known: Vocabulary) -> tuple[list[str], list[int], WordWatch]:
    words = rng.sample(WORDS, rng.randint(1, 6))
    tokens = rng.sample([CALL, AB, THINK, SAY], rng.choice([0, 0, 1, 2]))
    numbers = {token: len(words) + at for at, token in enumerate(tokens)}
    return words, tokens, WordWatch(dict(enumerate(words)), numbers, known)


@pytest.mark.parametrize("seed", range(4))
def test_where_tokens_lead(known: Vocabulary, seed: int) -> None:
    rng = random.Random(seed)
    num_triggered = num_halves = 0
    for _ in range(30):
        words, tokens, watch = random_watch(rng, known)
        at, read = BEGIN, b""
        for _ in range(25):
            token = rng.choice(
                [*spelled("abcx <é€" if rng.random() < 0.7 else "ab"), AB, CALL, THINK, SAY]
            )
            piece = known.piece(token)
            found = watch.after(at, token)
            is_apart = token in tokens or token in known.controls
            if (is_apart and at.half) or not is_text(read + piece):
                assert found is None
            elif token in tokens:
                assert found == piece
            elif (given := after(words, read, piece)) is not None:
                assert found == given
                num_triggered += 1
            else:
                assert isinstance(found, Free)
                at, read = found, read + piece
                num_halves += bool(at.half)
    assert num_triggered > 10
    assert num_halves > 3


@pytest.mark.parametrize("seed", range(4))
def test_a_mask_allows_what_trying_every_token_does(known: Vocabulary, seed: int) -> None:
    rng = random.Random(seed)
    num_refused = 0
    for _ in range(30):
        _, _, watch = random_watch(rng, known)
        odd = Odd(known, rng.randrange(3))

        at = BEGIN
        for _ in range(15):
            bits = np.unpackbits(np.frombuffer(watch.mask(at, odd), np.uint8), bitorder="little")
            allowed = set(np.flatnonzero(bits).tolist())
            led = {t: watch.after(at, t) for t in range(known.size) if t not in known.ends}
            coming = {t: to for t, to in led.items() if to is not None}
            kept = {t for t, to in coming.items() if not isinstance(to, bytes) or odd.fits(to)}
            num_refused += len(coming) - len(kept)
            assert allowed == kept | (set() if at.half else {END})
            onward = [to for token, to in coming.items() if isinstance(to, Free) and token < 300]
            begun = [to for to in onward if to.state or to.half]
            at = rng.choice(begun if begun and rng.random() < 0.8 else onward)
    assert num_refused > 20


def test_masks_that_are_forgotten_are_found_again(
    known: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("segue.engine.constraints.lazy.word_watch._MAX_MASKS", 1)
    watch = WordWatch({0: "ab c"}, {}, known)
    begun = watch.after(BEGIN, AB)
    assert isinstance(begun, Free)
    first = [watch.mask(at, Odd(known, 0)) for at in (BEGIN, begun)]
    assert first == [watch.mask(at, Odd(known, 0)) for at in (BEGIN, begun)]
