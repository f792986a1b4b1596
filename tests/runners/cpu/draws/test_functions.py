"""Compiled logarithms and exponentials have the bits of exact_math."""

import ctypes
import math
import struct
from collections.abc import Callable
from functools import cache

from hypothesis import example, given, settings
from hypothesis import strategies as st
from llvmlite import ir

from segue import exact_math
from segue.runners.cpu.draws.functions import Functions
from segue.runners.cpu.products import machine_code
from segue.runners.cpu.products.processor import target_of
from tests.runners.cpu.conftest import BY_NAME
from tests.runners.cpu.draws.alone import FLAVOURS

NAMES = ["log_of", "exp_of"]


@cache
def functions(flavour: str) -> dict[str, Callable[[float], float]]:
    target = target_of(BY_NAME[flavour])
    made = ir.Module("functions")
    made.triple = target.triple
    Functions(made)
    code = machine_code.load("test", lambda: made, NAMES, target)
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    return {name: kind(code[name]) for name in NAMES}


def check(name: str, x: float, wanted: float) -> None:
    for flavour in FLAVOURS:
        assert struct.pack("d", functions(flavour)[name](x)) == struct.pack("d", wanted), flavour


@given(x=st.floats(0.0, exclude_min=True, allow_infinity=False))
@example(x=5e-324)
@example(x=1.0)
@example(x=exact_math.HALF_ROOT)
@example(x=math.nextafter(exact_math.HALF_ROOT, 0.0))
@settings(max_examples=500, deadline=None)
def test_logarithms(x: float) -> None:
    check("log_of", x, exact_math.log(x))


@given(x=st.floats(-800.0, 800.0) | st.floats(-40.0, 40.0) | st.floats(allow_nan=False))
@example(x=709.7)
@example(x=-708.3)
@example(x=0.0)
@example(x=-0.0)
@settings(max_examples=500, deadline=None)
def test_exponentials(x: float) -> None:
    check("exp_of", x, exact_math.exp(x))
