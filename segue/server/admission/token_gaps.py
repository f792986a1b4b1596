"""How long the tokens of a request were apart: counts for the buckets of a histogram, kept while it runs.

Times are the engine's and come with its events: no clock is read, and tokens of one step have the same time.
"""

import math
from bisect import bisect_left

from segue.metrics import TOKEN_SECONDS


class TokenGaps:
    """Tokens that come together (accepted drafts, text that was held back) share the time since those before them.

    The first ones of a choice have none before them: an answer in one piece counts nothing.
    """

    def __init__(self) -> None:
        self._counts = [0] * (len(TOKEN_SECONDS) + 1)
        self._total_s = 0.0
        # By choice: when its last tokens came, how long after those before them, and how many they are.
        self._last: dict[int, tuple[float, float, int]] = {}

    def push(self, choice: int, at_s: float, num_tokens: int) -> None:
        """Tokens that came `at_s` seconds after the first one of their choice."""
        known = self._last.get(choice)
        if known is None:
            self._last[choice] = (at_s, 0.0, 0)
            return
        last_s, gap_s, num = known
        if at_s == last_s:
            if gap_s:
                self._last[choice] = (last_s, gap_s, num + num_tokens)
            return
        if num:
            self._counts[bisect_left(TOKEN_SECONDS, gap_s / num)] += num
            self._total_s += gap_s
        self._last[choice] = (at_s, at_s - last_s, num_tokens)

    def end(self) -> list[float]:
        """The request is over: a count for each bucket and for what is above, then the sum of seconds."""
        for choice in self._last:
            self.push(choice, math.inf, 0)  # whatever comes counts what came before
        self._last.clear()
        return [*self._counts, self._total_s]
