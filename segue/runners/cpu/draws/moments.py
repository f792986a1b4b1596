"""What a distribution is like as a whole: how many tokens are possible, how far logits spread, how unsure it is.

The results are those of the sampler's filters, to the bit: sums are those of exact_math.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from segue.runners.cpu.draws.functions import Functions
from segue.runners.cpu.draws.passes import FEW, LAYERS, VOID, Passes
from segue.runners.cpu.draws.writing import Num, Var, Writer, f64
from segue.runners.cpu.emit import (
    FLOATS,
    LANES,
    Value,
    at,
    call,
    f32,
    floats,
    greater,
    i16,
    i64,
    load,
    loop,
    splat,
    store,
)
from segue.runners.cpu.step.softmax import fold_into

_DOUBLES = ir.VectorType(f64, LANES)
_MINUS_INFINITY, _DEEPEST = float("-inf"), -100.0


class Moments:
    """The functions of a module; each takes addresses, counts and numbers."""

    def __init__(self, made: ir.Module, passes: Passes, functions: Functions) -> None:
        self.possible = _possible(made)
        self.deviation = _deviation(made)
        self.entropy = _entropy(made, passes, functions)
        self.typicality = _typicality(made)


def _each_part(w: Writer, count: Num, write: Callable[[Num, Any], None]) -> None:
    """Write a loop over places of vectors and one over those that are left: `write(place, kind)`."""
    with loop(w.b, (count / LANES).value) as each:
        write(Num(w.b, each.index) * LANES, FLOATS)
    first = count / LANES * LANES
    with w.each(count - first) as i:
        write(first + i, f32)


def _many(w: Writer, value: Num, kind: Any) -> Value:
    return value.value if kind == f32 else splat(w.b, value.value)


def _possible(made: ir.Module) -> Any:
    """(logits, count): how many are above -inf."""
    w = Writer(made, "possible", i64, i64, i64)
    b, (logits, count) = w.b, w.args
    found = Var(w.whole(0))

    def add(place: Num, kind: Any) -> None:
        part = load(b, at(b, logits.value, place.value, 4), kind)
        if kind == f32:
            is_possible = b.fcmp_ordered(">", part, ir.Constant(f32, _MINUS_INFINITY))
            number = b.zext(is_possible, i64)
        else:
            which = b.fcmp_ordered(">", part, floats(_MINUS_INFINITY))
            number = call(b, "llvm.ctpop.i64", i64, b.zext(b.bitcast(which, i16), i64))
        found.set(found.now + Num(b, number))

    _each_part(w, count, add)
    w.give(found.now)
    return w.function


def _total(made: ir.Module, name: str, change: Callable[[Writer, Value], Value]) -> Any:
    """(values, count, room, a double): exact_math.total of doubles that `change` makes of floats."""
    w = Writer(made, name, f64, *(i64, i64, i64, f64))
    values, count, room, _ = w.args
    sum_ = Var(w.double(0.0))
    with w.when(count <= FEW):
        with w.each(count) as i:
            value = change(w, w.load(f32, values, i).value)
            sum_.set(sum_.now + Num(w.b, value))
        w.give(sum_.now)
    width = (count + (LAYERS - 1)) / LAYERS
    about = (values.value, count.value, width.value, room.value)
    fold_into(w.b, *about, lambda value: change(w, value), out_bytes=8)
    with w.each(width) as i:
        sum_.set(sum_.now + w.load(f64, room, i))
    w.give(sum_.now)
    return w.function


def _widened(w: Writer, value: Value) -> Value:
    return w.b.fpext(value, f64 if value.type == f32 else _DOUBLES)


def _square(w: Writer, value: Value) -> Value:
    """Of the distance from the function's last argument."""
    mean = w.args[3].value
    distance = w.b.fsub(
        _widened(w, value), mean if value.type == f32 else splat(w.b, mean, _DOUBLES)
    )
    return w.b.fmul(distance, distance)


def _deviation(made: ir.Module) -> Any:
    """(values, count, room): the standard deviation of all, a double."""
    sum_of = _total(made, "sum_of_doubles", _widened)
    squares_of = _total(made, "sum_of_squares", _square)
    w = Writer(made, "deviation", f64, i64, i64, i64)
    count = w.args[1].as_double()
    mean = w.call(sum_of, *w.args, w.double(0.0)) / count
    w.give((w.call(squares_of, *w.args, mean) / count).root())
    return w.function


def _entropy(made: ir.Module, passes: Passes, functions: Functions) -> Any:
    """(logits, count, best, weights, their sum, products, room): in nats, a double."""
    w = Writer(made, "entropy", f64, *(i64, i64, f32, i64, f64, i64, i64))
    b = w.b
    logits, count, best, weights, total, products, room = w.args

    def multiply(place: Num, kind: Any) -> None:
        logit, weight = (
            load(b, at(b, row.value, place.value, 4), kind) for row in (logits, weights)
        )
        deepest = ir.Constant(f32, _DEEPEST) if kind == f32 else floats(_DEEPEST)
        depth = greater(b, b.fsub(logit, _many(w, best, kind)), deepest)
        store(b, b.fmul(weight, depth), at(b, products.value, place.value, 4))

    _each_part(w, count, multiply)
    mean_depth = w.call(passes.total, products, count, room) / total
    w.give(w.call(functions.log, total) - mean_depth)
    return w.function


def _typicality(made: ir.Module) -> Any:
    """(logits, count, logarithm of the sum of exponentials, entropy, out): less the distance from the entropy."""
    w = Writer(made, "typicality", VOID, *(i64, i64, f32, f32, i64))
    b = w.b
    logits, count, level, entropy, out = w.args

    def rate(place: Num, kind: Any) -> None:
        logit = load(b, at(b, logits.value, place.value, 4), kind)
        surprise = b.fsub(_many(w, level, kind), logit)
        apart = b.fsub(surprise, _many(w, entropy, kind))
        nothing = ir.Constant(f32, 0.0) if kind == f32 else floats(0.0)
        score = b.select(b.fcmp_ordered("<", apart, nothing), apart, b.fneg(apart))
        store(b, score, at(b, out.value, place.value, 4))

    _each_part(w, count, rate)
    w.give()
    return w.function
