"""Accuracy, order of sums, bits known in advance, and that nothing of the engine computes by other means."""

import ast
import hashlib
import math
from decimal import Decimal, localcontext
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue import exact_math
from tests.test_architecture import MODULES

NORMAL = st.floats(2.0**-1022, 1e308)


def true_exp(x: float) -> float:
    with localcontext(prec=40):
        return float(Decimal(x).exp())


def true_log(x: float) -> float:
    with localcontext(prec=40):
        return float(Decimal(x).ln())


def ulps(found: float, true: float) -> float:
    return abs(found - true) / math.ulp(true)


# --- accuracy -------------------------------------------------------------------------------------


@given(st.floats(-708.3, 709.7))
def test_exp_is_within_two_units_of_the_last_place(x: float) -> None:
    assert ulps(exact_math.exp(x), true_exp(x)) <= 2


@given(NORMAL | st.floats(0.5, 2.0))
def test_log_is_within_three(x: float) -> None:
    assert ulps(exact_math.log(x), true_log(x)) <= 3


def test_the_ends_of_the_range() -> None:
    assert exact_math.exp(0.0) == 1.0
    assert exact_math.exp(-math.inf) == exact_math.exp(-709.0) == 0.0
    assert exact_math.exp(math.inf) == exact_math.exp(710.0) == math.inf
    assert math.isnan(exact_math.exp(math.nan))
    assert exact_math.log(1.0) == 0.0
    assert exact_math.log(0.0) == -math.inf
    assert exact_math.log(math.inf) == math.inf
    assert math.isnan(exact_math.log(-1.0))
    assert exact_math.log(5e-324) == pytest.approx(-744.44, abs=0.01)


@given(st.floats(1e-3, 1e3), st.floats(-20.0, 20.0))
def test_power(base: float, exponent: float) -> None:
    assert exact_math.power(base, exponent) == pytest.approx(base**exponent, rel=1e-13)


def test_powers_of_nothing_and_of_one() -> None:
    assert exact_math.power(0.0, 0.0) == 1.0
    assert exact_math.power(0.0, 2.5) == 0.0
    assert exact_math.power(1.0, 1e300) == 1.0
    assert exact_math.log2(8.0) == pytest.approx(3.0, rel=1e-15)


@given(st.lists(st.floats(0.0, 2.0**100, width=32), min_size=1, max_size=50))
def test_logs_of_an_array_are_those_of_its_numbers(values: list[float]) -> None:
    found = exact_math.logs(np.array(values, np.float32))
    assert found.tolist() == [exact_math.log(value) for value in values]


@given(st.lists(st.floats(-130.0, 0.0, width=32), min_size=1, max_size=50))
def test_weights_are_as_exact_as_their_logits(depths: list[float]) -> None:
    weights = exact_math.weights(np.array(depths, np.float32), 0.0)
    for depth, weight in zip(depths, weights, strict=True):
        true = math.exp(depth)
        if true > 2.0**-125:
            assert abs(float(weight) - true) <= 1e-7 * (2 - depth) * true
        else:
            assert weight == 0 or weight > 2.0**-126, "no denormals"


def test_the_best_weighs_one_and_the_forbidden_nothing() -> None:
    logits = np.array([3.25, -np.inf, 3.25, -1e30], np.float32)
    assert exact_math.weights(logits, 3.25).tolist() == [1.0, 0.0, 1.0, 0.0]


@given(st.integers(1, 100_000), st.integers(0, 2**32 - 1))
def test_a_weight_does_not_depend_on_its_place(size: int, seed: int) -> None:
    logits = mixture(seed, size)
    best = float(logits.max())
    whole = exact_math.weights(logits, best)
    for index in (0, size // 3, size - 1):
        assert whole[index] == exact_math.weights(logits[index : index + 1], best)[0]


# --- sums -----------------------------------------------------------------------------------------


def in_order(values: list[np.float32]) -> np.float32:
    """Halves laid on each other, as `folded` says, one number at a time."""
    while len(values) > 1:
        half = len(values) // 2
        values = [a + b for a, b in zip(values[:half], values[half:], strict=True)]
    return values[0]


@pytest.mark.parametrize("size", [1, 63, 64, 65, 4097, 49_152, 50_001])
def test_folding_adds_in_the_order_it_says(size: int) -> None:
    values = mixture(size, size)
    width = -(-size // 64)
    padded = np.zeros(64 * width, np.float32)
    padded[:size] = values
    columns = padded.reshape(64, width)
    assert exact_math.folded(values).tolist() == [in_order(list(c)) for c in columns.T]


@pytest.mark.parametrize("size", [0, 1, 40, 4096, 4097, 151_936])
def test_total_is_the_sum(size: int) -> None:
    values = exact_math.weights(mixture(size, size), 20.0)
    assert exact_math.total(values) == pytest.approx(math.fsum(values.tolist()), rel=1e-6)


@given(st.lists(st.floats(-1e6, 1e6), max_size=60))
def test_running_sums_go_one_after_another(values: list[float]) -> None:
    expected, so_far = [], 0.0
    for value in values:
        so_far += value
        expected.append(so_far)
    assert exact_math.running_sums(np.array(values)).tolist() == expected


# --- the same bits everywhere ---------------------------------------------------------------------


def mixture(seed: int, size: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Logits from integers alone, so that the numbers themselves are the same everywhere."""
    state = np.arange(size, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(seed)
    for shift in (16, 13, 16):
        state = (state ^ (state >> np.uint32(shift))) * np.uint32(0x45D9F3B)
    return ((state >> np.uint32(8)).astype(np.float32) - 2.0**23) * np.float32(2.0**-19)


def digest(*arrays: np.ndarray[tuple[int], np.dtype[np.float32 | np.float64]]) -> str:
    little = (array.astype(array.dtype.newbyteorder("<")).tobytes() for array in arrays)
    return hashlib.sha256(b"".join(little)).hexdigest()


def test_bits_are_those_of_every_other_machine() -> None:
    logits = mixture(1, 49_152)
    weights = exact_math.weights(logits, float(logits.max()))
    numbers = [float(x) for x in logits[:2000]]
    scalars = [f(abs(x)) for x in numbers for f in (exact_math.exp, exact_math.log)]
    scalars += [exact_math.power(abs(x), y) for x, y in pairwise(numbers)]
    sums = [exact_math.total(weights), exact_math.log_sum_exp(logits, float(logits.max()))]
    assert digest(weights, exact_math.folded(weights)) == (
        "0b177c6f574cb77de3c9d53dd6e44cb1e945dcfd279e9253afe5c4eee173458c"
    )
    assert digest(np.array(scalars), np.array(sums)) == (
        "bc13008da6ce947e3df1f001bc9d5bfabd945d21ef463e5549e9ce1cc4ee170c"
    )


# --- nothing computes by other means --------------------------------------------------------------

# Routines of a C, vector or matrix library, and sums whose order numpy or Python is free to change.
BANNED = {
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "power", "float_power"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "arctan", "arctan2", "hypot", "cbrt"),
    *("sum", "nansum", "mean", "average", "std", "var", "prod", "cumsum", "cumprod", "trapezoid"),
    *("dot", "vdot", "inner", "matmul", "einsum", "tensordot", "convolve", "logaddexp", "softmax"),
    *("norm", "reduce", "reduceat"),
}
ROOMS = (
    "segue.engine.",
    "segue.library.",
    "segue.commands.score_lines",
    "segue.dialects.llamacpp.probabilities",
)
OF_FLOATS = ("segue.engine.sampling", "segue.engine.infill", "segue.commands", "segue.library")
# Sums of integers, whose order does not matter.
ALLOWED = {"np.bitwise_count(allowed).sum"}


def calls(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in BANNED:
                found.append(ast.unparse(node.func))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "sum":
            if not ast.unparse(node.args[0]).startswith("map(len, "):  # Python 3.12 compensates
                found.append("sum")
        elif isinstance(node, ast.BinOp | ast.AugAssign):
            if isinstance(node.op, ast.MatMult):
                found.append("@")
            if isinstance(node.op, ast.Pow) and not is_constant_power(node):
                found.append("**")
    return found


def is_constant_power(node: ast.BinOp | ast.AugAssign) -> bool:
    """2**20 or 2**count: Python's integers, or a power of two, which is exact."""
    return isinstance(node, ast.BinOp) and isinstance(node.left, ast.Constant)


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith(ROOMS)])
def test_the_engine_computes_with_these_alone(name: str) -> None:
    found = {call for call in calls(MODULES[name]) if not call.startswith("exact_math.")}
    if not name.startswith(OF_FLOATS):
        found.discard("sum")
    assert found - ALLOWED == set()


def test_the_check_sees_what_it_should(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text(
        "np.exp(x)\nx.sum()\na @ b\nx ** 2.0\nexact_math.exp(x)\n2 ** n\nmath.fsum(x)\nsum(x)\n"
    )
    assert sorted(calls(source)) == ["**", "@", "exact_math.exp", "np.exp", "sum", "x.sum"]
