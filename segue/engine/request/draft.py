"""Guesses at the next tokens, taken from the sequence's own text: what followed the last three tokens before.

A guess costs rows of a step that would be computed anyway, so a sequence that guesses badly guesses less. Where a row
would be computed for nothing it takes a free draft: what followed the last two tokens, or the last one.
Guesses never change the output: a token is kept only if the sampler draws exactly it.
"""

_GRAM = 3
_HUNCHES = (2, 1)  # tokens to go by
_LONGEST = 8
_LONGEST_PAUSE = 64  # steps


class Drafter:
    def __init__(self) -> None:
        self._follows: dict[tuple[int, ...], int] = {}  # a few tokens → where the next one stands
        self._num_indexed = 0
        self._length = 4
        self._num_misses = 0
        self._pause = 0
        self._is_hunch = False

    def draft(self, tokens: list[int], limit: int, num_idle: int = 0) -> list[int]:
        """Up to `limit` tokens that may come after `tokens`. `num_idle` rows are computed in any case."""
        self._index(tokens)
        guess = self._after(tokens, _GRAM, min(limit, self._length)) if not self._pause else []
        self._pause = max(0, self._pause - 1)
        self._is_hunch = not guess
        for length in _HUNCHES if self._is_hunch else ():
            guess = guess or self._after(tokens, length, min(limit, num_idle))
        return guess

    def learn(self, num_drafted: int, num_accepted: int) -> None:
        """How the last draft fared. A free draft cost nothing, so nothing follows from it."""
        if self._is_hunch:
            return
        if num_accepted == num_drafted:
            self._length = min(self._length * 2, _LONGEST)
        elif num_accepted < num_drafted / 2:
            self._length = max(self._length // 2, 1)
        if num_accepted:
            self._num_misses = 0
        else:
            self._num_misses += 1
            self._pause = min(2**self._num_misses, _LONGEST_PAUSE)

    def _after(self, tokens: list[int], length: int, limit: int) -> list[int]:
        start = self._follows.get(tuple(tokens[-length:]))
        return [] if start is None else tokens[start : start + max(limit, 0)]

    def _index(self, tokens: list[int]) -> None:
        """All but the last token, which is the question, not the answer. The latest place counts."""
        for end in range(max(self._num_indexed, 1), len(tokens)):
            for length in (_GRAM, *_HUNCHES):
                if end >= length:
                    self._follows[tuple(tokens[end - length : end])] = end
        self._num_indexed = max(self._num_indexed, len(tokens))
