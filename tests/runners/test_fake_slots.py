"""Slots of the fake runner as bytes: the engine's tests of what is saved and restored stand on it."""

from dataclasses import replace

import numpy as np
import pytest

from segue.engine.seam import Mix, Span
from segue.runners.fake import FakeRunner, default_capabilities
from segue.runners.fake_slots import FakeSlotBytes

TEXT = [*b"once upon a time"]


def fill(access: FakeSlotBytes, slot: int, length: int, data: bytes) -> None:
    [view] = access.receive(slot, length)
    view[:] = data
    access.received(slot)


@pytest.mark.parametrize("adapters", [(), ((1, 0.5), (0, 2.0))])
def test_what_goes_on_from_bytes_is_what_would_have_been(adapters: Mix) -> None:
    limits = replace(default_capabilities(), can_trim=False, can_give_back=3)
    runner = FakeRunner(limits)
    access = FakeSlotBytes(runner.slots, runner.add_cells)
    runner.decode([Span(0, TEXT, 0, 0, adapters, 3)])
    taken = b"".join(access.contents(0, 16))
    assert len(taken) == access.num_bytes(16)
    fill(access, 1, 16, taken)
    assert runner.cells_free == limits.num_cells - 32
    for slot in (0, 1):
        runner.trim(slot, 13)
    same, other = (runner.decode([Span(slot, [7], 13, 1, adapters)]) for slot in (0, 1))
    np.testing.assert_array_equal(same, other)


def test_the_first_tokens_alone_can_be_taken() -> None:
    runner = FakeRunner()
    access = FakeSlotBytes(runner.slots, runner.add_cells)
    runner.decode([Span(0, TEXT, 0, 0)])
    fill(access, 1, 5, b"".join(access.contents(0, 5)))
    same = runner.decode([Span(1, TEXT[5:], 5, 1)])
    np.testing.assert_array_equal(same, FakeRunner().decode([Span(0, TEXT, 0, 1)]))


def test_bytes_that_were_not_written_are_refused() -> None:
    runner = FakeRunner()
    access = FakeSlotBytes(runner.slots, runner.add_cells)
    access.receive(0, 3)
    with pytest.raises(ValueError, match="no slot's"):
        access.received(0)
    with pytest.raises(ValueError, match="not empty"):
        access.receive(0, 3)
