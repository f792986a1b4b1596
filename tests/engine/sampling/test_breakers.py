"""Breakers of several requests, which are found on several threads."""

from typing import Any

import pytest

from segue.engine.sampling.breakers import _Speller
from segue.runners.fake import FakeVocab


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
