from typing import cast

from segue.bench.context import CHUNK, costs
from segue.engine.seam import Span
from segue.runners.cpu.runner import CpuRunner


class Counting:
    """A runner that takes one tick of the clock more for each token of its context."""

    def __init__(self) -> None:
        self.length = self.now = 0

    def decode(self, spans: list[Span]) -> None:
        [span] = spans
        assert span.past == self.length
        self.length += len(span.tokens)
        self.now += self.length

    def trim(self, slot: int, length: int) -> None:
        self.length = length


def test_each_length_follows_the_one_before_and_costs_what_its_steps_cost() -> None:
    runner = Counting()
    rows = costs(cast(CpuRunner, runner), [CHUNK, 3 * CHUNK], lambda: runner.now)
    assert [length for length, _, _ in rows] == [CHUNK, 3 * CHUNK]
    assert rows[1][1] == 1e3 * 3 * CHUNK / CHUNK  # of the last chunk
    assert rows[1][2] == 1e3 * (3 * CHUNK + 1)  # the best of the steps
    assert runner.length == 3 * CHUNK
