"""Heads with matrices: no bit depends on how spans are cut, and rows can be taken back. Delta nets: test_delta.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.recurrent.wkv import wkv_phase
from segue.runners.cpu.step.recurrent.wkv6 import wkv6_phase
from tests.runners.cpu.step.recurrent import test_wkv, test_wkv6
from tests.runners.cpu.step.recurrent.matrix_slots import ROWS, Floats, Layer, Slot
from tests.runners.cpu.translation.built import built

Made = Callable[..., Layer]
Kind = tuple[Made, Callable[..., int]]
KINDS: dict[str, tuple[Made, Any]] = {
    "wkv7": (test_wkv.Layer, wkv_phase),
    "wkv6": (test_wkv6.Layer, wkv6_phase),
    "wkv6 adapted": (test_wkv6.Adapted, wkv6_phase),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    layer, phase = KINDS[request.param]
    return layer, built(phase, 4)


@pytest.mark.parametrize("cuts", [[1], [9], [1, 2, 10, 20], [*range(1, ROWS)]])
@pytest.mark.parametrize("left", [1, 2, 5, on.MOST_PENDING])
def test_bits_do_not_depend_on_how_a_text_is_cut(kind: Kind, cuts: list[int], left: int) -> None:
    layer, phase = kind[0](), kind[1]
    slot = Slot(layer, phase)
    rows = np.concatenate([slot.read(end, left) for end in (*cuts, ROWS)])
    np.testing.assert_array_equal(rows, Slot(layer, phase).read(ROWS))


@pytest.mark.parametrize("read", [1, 2, 9, 17])
@pytest.mark.parametrize(("left", "count"), [(1, 1), (4, 1), (8, 1), (8, 8)])
def test_the_last_rows_can_be_taken_back(kind: Kind, read: int, left: int, count: int) -> None:
    (made, phase), truth = kind, _whole(kind)
    layer, other = made(), made(seed=4)
    rows, kept = layer.rows.copy(), max(read - count, 0)
    layer.rows[kept:read] = other.rows[kept:read]
    slot = Slot(layer, phase)
    slot.read(read, left)
    slot.trim(read - kept)
    layer.rows[:] = rows
    np.testing.assert_array_equal(slot.read(ROWS), truth[kept:])


def _whole(kind: Kind) -> Floats:
    return Slot(kind[0](), kind[1]).read(ROWS)
