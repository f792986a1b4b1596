"""The radix sort gives the order that numpy's stable sort gives."""

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

from segue.runners.cpu.draws.sorting import sort
from segue.runners.cpu.memory import address
from segue.runners.cpu.products import machine_code
from segue.runners.cpu.products.processor import BY_NAME, target_of
from tests.runners.cpu.draws.alone import FLAVOURS, some_row


@cache
def compiled(flavour: str) -> Callable[..., None]:
    target = target_of(BY_NAME[flavour])
    made = ir.Module("sorting")
    made.triple = target.triple
    sort(made)
    code = machine_code.load("test", lambda: made, ["sort"], target)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5)(code["sort"])


@given(
    size=st.sampled_from([1, 2, 255, 5003]),
    style=st.sampled_from(
        ["usual", "ties", "equal", "zeros", "huge", "tiny", "infinite", "banned"]
    ),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_the_order_is_numpys(size: int, style: str, seed: int) -> None:
    row = some_row(style, size, seed)
    before = np.arange(size, dtype=np.int32) * 3
    wanted = before[np.argsort(-row, kind="stable")].tolist()
    for flavour in FLAVOURS:
        values, places, *spare = row.copy(), before.copy(), *np.empty((2, size), np.int32)
        compiled(flavour)(*map(address, (values, places, *spare)), size)
        assert places.tolist() == wanted, flavour
