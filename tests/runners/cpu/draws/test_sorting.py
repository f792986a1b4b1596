"""The radix sort gives the order that numpy's stable sort gives, and a floor leaves out none that is wanted."""

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

from segue.runners.cpu.draws.sorting import floor_of, sort
from segue.runners.cpu.memory import address
from segue.runners.cpu.products import machine_code
from segue.runners.cpu.products.processor import target_of
from tests.runners.cpu.conftest import BY_NAME
from tests.runners.cpu.draws.alone import FLAVOURS, some_row

LOWEST = float(np.finfo(np.float32).min)
STYLES = st.sampled_from(
    ["usual", "ties", "equal", "zeros", "huge", "tiny", "infinite", "banned", "peaked"]
)


@cache
def compiled(flavour: str) -> tuple[Callable[..., None], Callable[..., float]]:
    target = target_of(BY_NAME[flavour])
    made = ir.Module("sorting")
    made.triple = target.triple
    sort(made), floor_of(made)
    code = machine_code.load("test", lambda: made, ["sort", "floor_of"], target)
    whole, real = ctypes.c_int64, ctypes.c_float
    return (
        ctypes.CFUNCTYPE(None, *[whole] * 5)(code["sort"]),
        ctypes.CFUNCTYPE(real, whole, whole, whole, real)(code["floor_of"]),
    )


@given(size=st.sampled_from([1, 2, 255, 5003]), style=STYLES, seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_the_order_is_numpys(size: int, style: str, seed: int) -> None:
    row = some_row(style, size, seed)
    before = np.arange(size, dtype=np.int32) * 3
    wanted = before[np.argsort(-row, kind="stable")].tolist()
    for flavour in FLAVOURS:
        values, places, *spare = row.copy(), before.copy(), *np.empty((2, size), np.int32)
        compiled(flavour)[0](*map(address, (values, places, *spare)), size)
        assert places.tolist() == wanted, flavour


@given(
    size=st.sampled_from([1, 2, 255, 5003]),
    style=STYLES,
    seed=st.integers(0, 2**32),
    share=st.floats(0, 1),
)
@settings(max_examples=60, deadline=None)
def test_so_many_reach_the_floor(size: int, style: str, seed: int, share: float) -> None:
    row = some_row(style, size, seed)
    wanted = max(1, int(share * size))
    row.sort()
    least = max(LOWEST, row[-wanted])  # -inf is never wanted
    for flavour in FLAVOURS:
        floor = compiled(flavour)[1](address(row), size, wanted, LOWEST)
        assert LOWEST <= floor <= least, flavour


def test_few_others_reach_the_floor() -> None:
    row = np.random.default_rng(1).normal(0.0, 3.0, 50_000).astype(np.float32)
    for wanted in (300, 5_000, 20_000):
        floor = compiled(FLAVOURS[0])[1](address(row), row.size, wanted, LOWEST)
        assert wanted <= (row >= floor).sum() <= wanted + 5_000
