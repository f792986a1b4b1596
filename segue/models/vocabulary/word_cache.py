"""Remembers the tokens of words: most words of a text occurred before."""

from collections.abc import Callable, Sequence

_MOST_WORDS = 1 << 16
_LONGEST = 64


class WordCache:
    """Safe to use from several threads: at worst a word is looked up twice."""

    def __init__(self, look_up: Callable[[str], Sequence[int]]) -> None:
        self._look_up = look_up
        self._known: dict[str, Sequence[int]] = {}

    def __call__(self, word: str) -> Sequence[int]:
        tokens = self._known.get(word)
        if tokens is None:
            tokens = self._look_up(word)
            if len(word) <= _LONGEST:
                if len(self._known) >= _MOST_WORDS:
                    self._known = {}
                self._known[word] = tokens
        return tokens
