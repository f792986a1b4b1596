"""Guesses at the next tokens, taken from the sequence's own text: what followed the last three tokens before.

A guess costs rows of a step that would be computed anyway, so a sequence that guesses badly guesses less.
Guesses never change the output: a token is kept only if the sampler draws exactly it.
"""

_GRAM = 3
_LONGEST = 8
_LONGEST_PAUSE = 64  # steps


class Drafter:
    def __init__(self) -> None:
        self._follows: dict[tuple[int, ...], int] = {}  # three tokens → where the next one stands
        self._num_indexed = 0
        self._length = 4
        self._num_misses = 0
        self._pause = 0

    def draft(self, tokens: list[int], limit: int) -> list[int]:
        """Up to `limit` tokens that may come after `tokens`."""
        if self._pause:
            self._pause -= 1
            return []
        self._index(tokens)
        start = self._follows.get(tuple(tokens[-_GRAM:]))
        return [] if start is None else tokens[start : start + min(limit, self._length)]

    def learn(self, num_drafted: int, num_accepted: int) -> None:
        """How the last draft fared."""
        if num_accepted == num_drafted:
            self._length = min(self._length * 2, _LONGEST)
        elif num_accepted < num_drafted / 2:
            self._length = max(self._length // 2, 1)
        if num_accepted:
            self._num_misses = 0
        else:
            self._num_misses += 1
            self._pause = min(2**self._num_misses, _LONGEST_PAUSE)

    def _index(self, tokens: list[int]) -> None:
        """All but the last three, which are the question, not the answer."""
        for start in range(self._num_indexed, len(tokens) - _GRAM):
            self._follows[tuple(tokens[start : start + _GRAM])] = start + _GRAM
        self._num_indexed = max(self._num_indexed, len(tokens) - _GRAM)
