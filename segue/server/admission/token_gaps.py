"""How long the tokens of a request were apart: counts for the buckets of a histogram, kept while it runs.

Times are the engine's and come with its events: no clock is read, and tokens of one step have the same time.
"""

from bisect import bisect_left

from segue.metrics.figures import TOKEN_SECONDS


class _Last:
    """The last tokens of a choice: when they came, how long after those before them, and how many they are."""

    __slots__ = ("at_s", "first_s", "gap_s", "num")

    def __init__(self, at_s: float) -> None:
        self.first_s = self.at_s = at_s
        self.gap_s, self.num = 0.0, 0


class TokenGaps:
    """Tokens that come together (accepted drafts, text that was held back) share the time since those before them.

    The first ones of a choice have none before them: an answer in one piece counts nothing.
    """

    def __init__(self) -> None:
        self._counts = [0] * (len(TOKEN_SECONDS) + 1)
        self._last: dict[int, _Last] = {}  # by choice

    def push(self, choice: int, at_s: float, num_tokens: int) -> None:
        """Tokens that came `at_s` seconds after the first one of their choice."""
        last = self._last.get(choice)
        if last is None:
            self._last[choice] = _Last(at_s)
        elif at_s != last.at_s and num_tokens:
            num, gap_s = last.num, last.gap_s
            if num:  # no more of them come
                self._counts[bisect_left(TOKEN_SECONDS, gap_s / num)] += num
            last.gap_s, last.at_s, last.num = at_s - last.at_s, at_s, num_tokens
        elif last.num:
            last.num += num_tokens

    def end(self) -> list[float]:
        """The request is over: a count for each bucket and for what is above, then the sum of seconds."""
        for last in self._last.values():
            if last.num:
                self._counts[bisect_left(TOKEN_SECONDS, last.gap_s / last.num)] += last.num
        total_s = sum(last.at_s - last.first_s for last in self._last.values())
        self._last.clear()
        return [*self._counts, total_s]
