from typing import cast

import pytest

from segue.bench.context import CHUNK, costs
from segue.engine.seam import Span
from segue.runners.cpu.runner import CpuRunner


class Counting:
    """A runner that takes one tick of the clock more for each token of its context."""

    def __init__(self) -> None:
        self.length = self.now = 0

    def decode(self, spans: list[Span]) -> None:
        assert {span.past for span in spans} == {self.length}
        self.length += len(spans[0].tokens)
        self.now += len(spans) * self.length

    def trim(self, slot: int, length: int) -> None:
        self.length = length


@pytest.mark.parametrize("sequences", [1, 3])
def test_each_length_follows_the_one_before_and_costs_what_its_steps_cost(sequences: int) -> None:
    runner = Counting()
    rows = costs(cast(CpuRunner, runner), [CHUNK, 3 * CHUNK], lambda: runner.now, sequences)
    assert [length for length, _, _ in rows] == [CHUNK, 3 * CHUNK]
    assert rows[1][1] == 1e3 * 3 * CHUNK / CHUNK  # of the last chunk
    assert rows[1][2] == 1e3 * (3 * CHUNK + 1)  # the best of the steps
    assert runner.length == 3 * CHUNK
