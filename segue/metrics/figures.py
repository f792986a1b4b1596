"""What is counted of a model's requests, why choices ended and histograms, and where in a row each number is."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from segue.types import Buckets, Finished, Prompted, Served

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_MILLISECONDS = (1, 2.5, 5, 7.5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 250, 500, 1000, 2500)
TOKEN_SECONDS = tuple(each / 1000 for each in _MILLISECONDS)
TOKENS = tuple(float(step * 10**power) for power in range(6) for step in (1, 2, 5))

# Why a choice ended. The last two are of requests that ended without an answer.
REASONS = ("stop", "length", "repetition", "error", "abort")
_ENDS = {
    "first_s": SECONDS,
    "gap_s": TOKEN_SECONDS,
    "whole_s": SECONDS,
    "queue_s": SECONDS,
    "prompt_s": SECONDS,
    "decode_s": SECONDS,
    "inference_s": SECONDS,
    "token_s": TOKEN_SECONDS,
    "prompt_tokens": TOKENS,
    "answer_tokens": TOKENS,
    "longest_tokens": TOKENS,
}


class Histogram(NamedTuple):
    """Where a histogram is in a row: a count for each bucket and for what is above, then the sum."""

    ends: tuple[float, ...]  # of its buckets
    start: int

    @property
    def sum_at(self) -> int:
        return self.start + len(self.ends) + 1

    def read(self, row: Sequence[float]) -> Buckets:
        return Buckets(self.ends, tuple(row[self.start : self.sum_at]), row[self.sum_at])


def _laid_out() -> dict[str, Histogram]:
    start, histograms = len(REASONS), {}
    for name, ends in _ENDS.items():
        histograms[name] = Histogram(ends, start)
        start = histograms[name].sum_at + 1
    return histograms


HISTOGRAMS = _laid_out()
ROW_SIZE = max(each.sum_at for each in HISTOGRAMS.values()) + 1
_PLACES = dict(zip(REASONS, count(), strict=False))


def read(row: Sequence[float]) -> Served:
    histograms = {name: each.read(row) for name, each in HISTOGRAMS.items()}
    return Served(reasons=dict(zip(REASONS, row, strict=False)), **histograms)


class Figures:
    """Those of one request, while it runs: numbers by their place in a row."""

    def __init__(self) -> None:
        self.numbers: dict[int, float] = {}
        self._longest = 0

    def prompted(self, event: Prompted) -> None:
        self.observe("prompt_tokens", len(event.tokens))

    def finished(self, event: Finished) -> None:
        num_tokens, decode_s = event.num_tokens, event.decode_s
        self.ended("repetition" if event.cause == "repetition" else event.reason)
        self.observe("answer_tokens", num_tokens)
        self._longest = max(self._longest, num_tokens)
        if num_tokens:
            self.observe("prompt_s", event.prompt_s)
            self.observe("decode_s", decode_s)
            self.observe("inference_s", event.prompt_s + decode_s)
        if num_tokens > 1:
            self.observe("token_s", decode_s / (num_tokens - 1))

    def ended(self, reason: str) -> None:
        self._add(_PLACES[reason], 1)

    def observe(self, name: str, value: float) -> None:
        histogram = HISTOGRAMS[name]
        self._add(histogram.start + bisect_left(histogram.ends, value), 1)
        self._add(histogram.sum_at, value)

    def gaps(self, numbers: Sequence[float]) -> None:
        """Of its tokens, as that histogram is in a row."""
        for place, number in enumerate(numbers, HISTOGRAMS["gap_s"].start):
            if number:
                self._add(place, number)

    def answered(self) -> None:
        """All of its choices ended."""
        self.observe("longest_tokens", self._longest)

    def _add(self, place: int, number: float) -> None:
        self.numbers[place] = self.numbers.get(place, 0.0) + number
