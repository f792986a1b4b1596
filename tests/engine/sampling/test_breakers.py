"""Breakers of several requests, which are found on several threads."""

import random
from typing import Any

import pytest

from segue.engine.sampling.breakers import _Speller, find_breakers
from segue.runners.fake import FakeVocab


class FewPieces(FakeVocab):
    """One token of nothing, as control tokens have no text, and some that overlap."""

    pieces = (b"", b"a", b"b", b"ab", b"xaba", b"abaxa", b"\xc3")
    size = len(pieces)

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        return [self.pieces.index(letter.encode()) for letter in text.replace("x", "a")]

    def piece(self, token: int) -> bytes:
        return self.pieces[token]


@pytest.mark.parametrize(
    ("text", "spellings"),
    [
        ("b", {(token, ()) for token in (2, 3, 4, 5)}),
        (
            "aba",
            {(4, ()), (5, ()), (1, (2, 1)), (3, (1,))},
        ),  # a token that has it all needs no rest
        ("é", set()),  # what is left of it after the first byte is no text
        ("\ud800", set()),  # half of a character, which JSON can write
    ],
)
def test_every_way_to_spell_a_text(text: str, spellings: set[Any]) -> None:
    vocab = FewPieces()
    found = _Speller(vocab).spellings(text, vocab)
    assert len(found) == len(spellings)
    assert set(found) == spellings


@pytest.mark.parametrize("seed", range(20))
def test_texts_are_spelled_as_trying_every_token_does(seed: int) -> None:
    rng, vocab = random.Random(seed), FewPieces()
    text = "".join(rng.choices("abx", k=rng.randint(1, 30)))
    expected: set[Any] = {
        (token, ()) for token, piece in enumerate(vocab.pieces) if text.encode() in piece
    }
    whole = {token for token, _ in expected}
    for size in range(1, len(text)):
        rest = tuple(vocab.tokenize(text[size:], False, False))
        begun = text[:size].encode()
        heads = {token for token, piece in enumerate(vocab.pieces) if piece.endswith(begun)}
        expected |= {(token, rest) for token in heads - whole}
    assert set(_Speller(vocab).spellings(text, vocab)) == expected


class Forgetful(dict[str, Any]):
    """As if another thread had found so much meanwhile that all is forgotten."""

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self.clear()


def test_what_another_thread_forgets_was_found_all_the_same() -> None:
    """The request failed that had looked for it."""
    vocab = FakeVocab()
    speller = _Speller(vocab)
    expected = speller.spellings("th", vocab)
    speller._known = Forgetful()
    assert speller.spellings("th", vocab) == expected
    assert {token for token, _ in expected} == {ord("t")}


def test_not_more_is_remembered_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("segue.engine.sampling.breakers._MOST_REMEMBERED", 3)
    vocab = FakeVocab()
    speller = _Speller(vocab)
    for text in "1234567":
        assert speller.spellings(text, vocab) == [(ord(text), ())]
        assert len(speller._known) <= 3


def test_tokens_of_equal_rests_share_them() -> None:
    """Thousands end with one letter: each had a set of its own, some 40 MB for one request."""
    found = find_breakers(["bb"], FewPieces())
    assert found == {2: {(2,)}, 3: {(2,)}}
    assert found[2] is found[3]
