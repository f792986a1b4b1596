"""Guesses at the next tokens, taken from the sequence's own text: what followed the last three tokens before.

A guess costs rows of a step that would be computed anyway, so a sequence that guesses badly guesses less. Where a row
would be computed for nothing it takes a free draft: what followed the last two tokens, or the last one.
Guesses never change the output: a token is kept only if the sampler draws exactly it.
"""

_GRAM = 3
_HUNCHES = (2, 1)  # tokens to go by
_LONGEST = 8
_LONGEST_PAUSE = 64  # steps


_MOST_INDEXED = 256  # tokens of a prompt per step: a long one must not hold up everybody's step


class GramIndex:
    """A few tokens → where the one after them stands, the latest place."""

    def __init__(self, start: int) -> None:
        self._follows: dict[tuple[int, ...], int] = {}
        self._next = max(start, 1)

    def extend(self, tokens: list[int], end: int, most: int) -> None:
        """Up to place `end`, but no more than so many places in one go."""
        end = min(end, self._next + most)
        for place in range(self._next, end):
            for length in (_GRAM, *_HUNCHES):
                if place >= length:
                    self._follows[tuple(tokens[place - length : place])] = place
        self._next = max(self._next, end)

    def find(self, gram: tuple[int, ...]) -> int | None:
        return self._follows.get(gram)


class Drafter:
    """Candidates of one prompt share its index. All but the last token is indexed: that is the question."""

    def __init__(self, num_prompt: int = 0, mate: "Drafter | None" = None) -> None:
        self._num_prompt = num_prompt
        self._prompt: GramIndex = GramIndex(0) if mate is None else mate._prompt
        self._output = GramIndex(num_prompt)
        self._length = 4
        self._num_misses = 0
        self._pause = 0
        self._is_hunch = False

    def draft(self, tokens: list[int], limit: int, num_idle: int = 0) -> list[int]:
        """Up to `limit` tokens that may come after `tokens`. `num_idle` rows are computed in any case."""
        self._prompt.extend(tokens, min(self._num_prompt, len(tokens)), _MOST_INDEXED)
        self._output.extend(tokens, len(tokens), len(tokens))
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
        gram = tuple(tokens[-length:])
        start = self._output.find(gram)
        if start is None:
            start = self._prompt.find(gram)
        return [] if start is None else tokens[start : start + max(limit, 0)]
