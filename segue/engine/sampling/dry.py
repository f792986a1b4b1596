"""DRY, Don't Repeat Yourself (p-e-w): the longer a repetition already is, the higher the penalty on its next token.

For every earlier position, the length of the longest common suffix of the text up to there and the whole text is kept:
one more token makes each match one longer or ends it. No repetition extends back over a breaker ("\\n", for example).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from segue import exact_math
from segue.engine.seam import Logits
from segue.types import Sampling

# A token that can begin a breaker, and the tokens that must follow to complete it: () if the token contains all of it.
Breakers = Mapping[int, frozenset[tuple[int, ...]]]
_LOG_LARGEST = 88.7228391  # logarithm of the largest float32


class Dry:
    def __init__(self, sampling: Sampling, breakers: Breakers) -> None:
        self._multiplier = sampling.dry_multiplier
        self._base = sampling.dry_base
        self._allowed = sampling.dry_allowed_length
        self._window = sampling.dry_window
        steep = self._base > 1.000001
        self._longest = int(_LOG_LARGEST / exact_math.log(self._base)) if steep else None
        self._tokens = np.empty(64, np.int64)  # the first `_size` of them
        self._size = 0
        # At the positions within the window.
        self._matches: NDArray[np.int32] = np.empty(0, np.int32)
        self._breaks = _Breaks(breakers)

    def start(self, prompt: Sequence[int]) -> None:
        if self._window >= 0:
            prompt = prompt[max(len(prompt) - self._window, 0) :]
        if prompt:
            self._size = len(prompt)
            self._tokens = np.array(prompt, np.int64)
            self._matches = np.array(_suffix_matches(tuple(prompt)), np.int32)
            self._breaks.start(prompt)

    def push(self, token: int) -> None:
        if self._size == self._tokens.size:
            self._tokens = np.concatenate([self._tokens, np.empty_like(self._tokens)])
        self._tokens[self._size] = token
        self._size += 1
        self._breaks.push(token)
        seen = self._seen()
        before = self._matches[self._matches.size - seen.size + 1 :]  # of the position to the left
        self._matches = np.ones(seen.size, np.int32)
        self._matches[1:] += before
        self._matches *= seen == token

    def apply(self, logits: Logits) -> None:
        added = self.added()
        ids = np.fromiter(added.keys(), np.intp, len(added))
        logits[ids] += np.fromiter(added.values(), np.float32, len(added))

    def added(self) -> dict[int, float]:
        """What is added to the logits of tokens that would continue a repetition."""
        continued = self._continued()
        costs = {length: self._cost(length) for length in set(continued.values())}
        return {token: -costs[length] for token, length in continued.items()}

    def _seen(self) -> NDArray[np.int64]:
        start = 0 if self._window < 0 else max(self._size - self._window, 0)
        return self._tokens[start : self._size]

    def _continued(self) -> dict[int, int]:
        """Tokens that would continue a repetition → the length of the longest repetition that each would continue."""
        seen = self._seen()
        reach = self._breaks.reach(seen.size)
        if seen.size <= self._allowed or reach < self._allowed:
            return {}
        # A match begins in the window.
        inside = np.minimum(self._matches[:-1], np.arange(1, seen.size))
        lengths = np.minimum(inside, reach)
        ends = np.flatnonzero(lengths >= self._allowed)
        ends = ends[np.argsort(lengths[ends], kind="stable")]  # the longest is written last
        found = dict(zip(seen[ends + 1].tolist(), lengths[ends].tolist(), strict=True))
        return {t: n for t, n in found.items() if not self._breaks.is_breaker(t)}

    def _cost(self, length: int) -> float:
        over = length - self._allowed
        if self._longest is not None:
            over = min(over, self._longest)
        return max(min(self._multiplier * exact_math.power(self._base, over), 1e30), -1e30)


class _Breaks:
    """Where the last breaker stands."""

    def __init__(self, breakers: Breakers) -> None:
        self._breakers = breakers
        tails = {len(tail) for each in breakers.values() for tail in each}
        self._tail_lengths = sorted(tails)
        self._recent: list[int] = []
        self._position = -1  # position of the latest token
        self._head = -1  # positions of the last breaker's first and last token
        self._end = -1

    def start(self, tokens: Sequence[int]) -> None:
        self._position = len(tokens) - 1
        if self._tail_lengths:
            self._recent = list(tokens[-self._tail_lengths[-1] - 1 :])
        for place in range(len(tokens) - 1, -1, -1):
            for tail in sorted(self._breakers.get(tokens[place], ()), key=len, reverse=True):
                end = place + len(tail)
                if tuple(tokens[place + 1 : end + 1]) == tail:
                    self._head, self._end = place, end
                    return

    def push(self, token: int) -> None:
        self._position += 1
        if not self._tail_lengths:
            return
        self._recent.append(token)
        if len(self._recent) > 2 * self._tail_lengths[-1] + 64:
            del self._recent[: -self._tail_lengths[-1] - 1]
        for length in self._tail_lengths:  # the last breaker is the one that begins last
            if length < len(self._recent) and self._position - length >= self._head:
                head, *tail = self._recent[-1 - length :]
                if tuple(tail) in self._breakers.get(head, ()):
                    self._head, self._end = self._position - length, self._position
                    return

    def reach(self, num_seen: int) -> int:
        """How many of the latest tokens a repetition may span."""
        is_inside = self._head >= 0 and self._position - self._head < num_seen
        return self._position - self._end if is_inside else num_seen

    def is_breaker(self, token: int) -> bool:
        return () in self._breakers.get(token, ())


@lru_cache(maxsize=4)  # the candidates of a prompt all start with it
def _suffix_matches(tokens: tuple[int, ...]) -> list[int]:
    """For each position, the common suffix length with the whole text: the Z function of the reversed text."""
    backwards = tokens[::-1]
    size = len(backwards)
    lengths = [0] * size
    left = right = 0  # the match found so far that reaches furthest
    for i in range(1, size):
        length = min(right - i, lengths[i - left]) if i < right else 0
        while i + length < size and backwards[length] == backwards[i + length]:
            length += 1
        if i + length > right:
            left, right = i, i + length
        lengths[i] = length
    return lengths[::-1]
