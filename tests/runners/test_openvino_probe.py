from collections.abc import Sequence

import numpy as np
import pytest

from segue.engine.seam import Logits, Span
from segue.runners.fake import FakeRunner, default_capabilities
from segue.runners.openvino_probe import is_deterministic


class Roaming(FakeRunner):
    """Adds a last bit that depends on how a span came."""

    def __init__(self, is_off: str):
        super().__init__(default_capabilities(num_slots=4, max_rows=512, num_cells=4096))
        self.is_off = is_off

    def decode(self, spans: Sequence[Span]) -> Logits:
        logits = super().decode(spans).copy()
        first = spans[0]
        is_lone = len(first.tokens) == 1 and len(spans) == 1
        kinds = {"company": len(spans) > 1, "lone": is_lone, "whole": first.past == 0}
        return np.nextafter(logits, np.float32(9e9)) if kinds.get(self.is_off) else logits


@pytest.mark.parametrize("is_off", ["company", "lone", "whole"])
def test_a_single_bit_is_noticed(is_off: str) -> None:
    runner = Roaming(is_off)
    assert not is_deterministic(runner)
    assert runner.cells_free == runner.capabilities.num_cells, "it leaves nothing behind"


def test_a_runner_that_keeps_the_promise_passes() -> None:
    runner = Roaming("nothing")
    assert is_deterministic(runner)
    assert runner.cells_free == runner.capabilities.num_cells


@pytest.mark.parametrize("limits", [{"num_slots": 1}, {"max_rows": 32}, {"num_cells": 64}])
def test_where_there_is_no_room_to_try_nothing_is_promised(limits: dict[str, int]) -> None:
    assert not is_deterministic(FakeRunner(default_capabilities(**limits)))
