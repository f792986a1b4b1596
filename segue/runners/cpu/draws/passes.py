"""Passes over a row of floats: quotients, peaks of blocks, the highest, sums in order, and what reaches a floor."""

from typing import Any

from llvmlite import ir

from segue import exact_math
from segue.runners.cpu.draws.records import BLOCK
from segue.runners.cpu.draws.writing import Num, Var, Writer, f64
from segue.runners.cpu.emit import (
    LANES,
    ahead,
    at,
    call,
    cell,
    f32,
    floats,
    greater,
    i16,
    i32,
    i64,
    load,
    loop,
    splat,
    store,
    tree,
)
from segue.runners.cpu.step.softmax import fold_into, weigh_into, weight

VOID = ir.VoidType()
FEW, LAYERS = exact_math.FEW, exact_math.LAYERS
_VECTOR_BYTES = 4 * LANES
_MINUS_INFINITY = float("-inf")


class Passes:
    """The functions of a module; each takes addresses, counts and numbers."""

    def __init__(self, made: ir.Module) -> None:
        self.divide = _divide(made)
        self.peaks = _peaks(made)
        self.highest = _highest(made)
        self.weigh = _weigh(made)
        self.total = _total(made)
        self.fold_weights = _fold_weights(made)
        self.weigh_column = _weigh_column(made)
        self.fall = _fall(made)
        self.gather = _gather(made)


def _divide(made: ir.Module) -> Any:
    """(row, count, divisor, out)"""
    w = Writer(made, "divide", VOID, *(i64, i64, f32, i64))
    row, count, divisor, out = w.args
    by = splat(w.b, divisor.value)
    with loop(w.b, (count / LANES).value) as each:
        place = at(w.b, row.value, each.index, _VECTOR_BYTES)
        store(w.b, w.b.fdiv(load(w.b, place), by), at(w.b, out.value, each.index, _VECTOR_BYTES))
    first = count / LANES * LANES
    with w.each(count - first) as i:
        w.store(w.load(f32, row, first + i) / divisor, out, first + i)
    w.give()
    return w.function


def _peaks(made: ir.Module) -> Any:
    """(row, count, out): store the maximum of each block; the last may be short. Returns 0 if no item is NaN."""
    w = Writer(made, "peaks", i64, i64, i64, i64)
    b, (row, count, out) = w.b, w.args
    strange = Var(w.whole(0))
    blocks = count / BLOCK
    with w.each(blocks) as i:
        start = (row + i * (4 * BLOCK)).value
        parts = [load(b, ahead(b, start, offset)) for offset in range(0, 4 * BLOCK, _VECTOR_BYTES)]
        odd = ir.Constant(ir.VectorType(ir.IntType(1), LANES), None)
        for left, right in zip(parts[::2], parts[1::2], strict=True):
            odd = b.or_(odd, b.fcmp_unordered("uno", left, right))
        is_odd = b.icmp_unsigned("!=", b.bitcast(odd, i16), ir.Constant(i16, 0))
        strange.set(strange.now + Num(b, b.zext(is_odd, i64)))
        top = parts[0]
        for part in parts[1:]:
            top = greater(b, part, top)
        w.store(Num(b, tree(b, top, lambda x, y: greater(b, x, y))), out, i)
    first = blocks * BLOCK
    with w.when(first < count):
        top_of_rest = Var(w.real(_MINUS_INFINITY))
        with w.each(count - first) as i:
            value = w.load(f32, row, first + i)
            is_number = value.equals(value)
            strange.set(strange.now + is_number.pick(w.whole(0), 1))
            top_of_rest.set((value > top_of_rest.now).pick(value, top_of_rest.now))
        w.store(top_of_rest.now, out, blocks)
    w.give(strange.now)
    return w.function


def _highest(made: ir.Module) -> Any:
    """(row, count): the highest; NaN is ignored."""
    w = Writer(made, "highest", f32, i64, i64)
    b, (row, count) = w.b, w.args
    top = cell(b, floats(_MINUS_INFINITY))
    with loop(b, (count / LANES).value) as each:
        part = load(b, at(b, row.value, each.index, _VECTOR_BYTES))
        b.store(greater(b, part, b.load(top)), top)
    best = Var(Num(b, tree(b, b.load(top), lambda x, y: greater(b, x, y))))
    first = count / LANES * LANES
    with w.each(count - first) as i:
        value = w.load(f32, row, first + i)
        best.set((value > best.now).pick(value, best.now))
    w.give(best.now)
    return w.function


def _weigh(made: ir.Module) -> Any:
    """(logits, count, best, out): exact_math.weights"""
    w = Writer(made, "weigh_row", VOID, *(i64, i64, f32, i64))
    weigh_into(w.b, *(arg.value for arg in w.args))
    w.give()
    return w.function


def _total(made: ir.Module) -> Any:
    """(values, count, room): exact_math.total. The columns of more than FEW are left in `room`."""
    w = Writer(made, "total", f64, i64, i64, i64)
    values, count, room = w.args
    source, size = Var(values), Var(count)
    with w.when(count > FEW):
        width = (count + (LAYERS - 1)) / LAYERS
        fold_into(w.b, values.value, count.value, width.value, room.value)
        source.set(room)
        size.set(width)
    sum_ = Var(w.double(0.0))
    with w.each(size.now) as i:
        sum_.set(sum_.now + w.load(f32, source.now, i).widened())
    w.give(sum_.now)
    return w.function


def _scaled_weight(b: Any, divisor: Any, best: Any) -> Any:
    """The weight of a logit, one number or a vector, after its division by the temperature."""

    def weigh(logit: Any) -> Any:
        is_one = logit.type == f32
        by, top = (divisor, best) if is_one else (splat(b, divisor), splat(b, best))
        return weight(b, b.fsub(b.fdiv(logit, by), top))

    return weigh


def _fold_weights(made: ir.Module) -> Any:
    """(logits, count, width, divisor, best, out): exact_math.folded of the weights, which are not stored anywhere.

    `best` is the highest quotient. For more than FEW logits.
    """
    w = Writer(made, "fold_weights", VOID, *(i64, i64, i64, f32, f32, i64))
    logits, count, width, divisor, best, out = (arg.value for arg in w.args)
    fold_into(w.b, logits, count, width, out, _scaled_weight(w.b, divisor, best))
    w.give()
    return w.function


def _weigh_column(made: ir.Module) -> Any:
    """(logits, stride, count, divisor, best, out): weights of the logits at these strides."""
    w = Writer(made, "weigh_column", VOID, *(i64, i64, i64, f32, f32, i64))
    logits, stride, count, divisor, best, out = w.args
    weigh = _scaled_weight(w.b, divisor.value, best.value)
    with w.each(count) as i:
        w.store(Num(w.b, weigh(w.load(f32, logits, i * stride).value)), out, i)
    w.give()
    return w.function


def _fall(made: ir.Module) -> Any:
    """(weights, stride, count, offset, address of a double): the weight at `offset`, when they lie end to end.

    Rounding can put the offset behind the last weight: then the last one that is not 0. Stores the sum of those before.
    """
    w = Writer(made, "fall", i64, *(i64, i64, i64, f64, i64))
    weights, stride, count, offset, before = w.args
    sum_, last = Var(w.double(0.0)), Var(w.whole(0))
    with w.each(count) as i:
        weight = w.load(f32, weights, i * stride)
        w.store(sum_.now, before)
        sum_.set(sum_.now + weight.widened())
        with w.when(sum_.now > offset):
            w.give(i)
        last.set(weight.equals(0.0).pick(last.now, i))
    rest = Var(w.double(0.0))
    with w.each(last.now) as i:
        rest.set(rest.now + w.load(f32, weights, i * stride).widened())
    w.store(rest.now, before)
    w.give(last.now)
    return w.function


def _gather(made: ir.Module) -> Any:
    """(row, first, end, floor, values, places, found): append items first … end − 1 that are at least
    `floor`, with their places. Returns how many there are then."""
    w = Writer(made, "gather", i64, *(i64, i64, i64, f32, i64, i64, i64))
    b = w.b
    row, first, end, floor, values, places, so_far = w.args
    found, place = Var(so_far), Var(first)
    floors = splat(b, floor.value)

    def take(at_place: Num) -> None:
        w.store(w.load(f32, row, at_place), values, found.now)
        w.store(at_place, places, found.now, i32)
        found.set(found.now + 1)

    with w.during(lambda: place.now + LANES <= end):
        part = load(b, (row + place.now * 4).value)
        bits = Var(Num(b, b.zext(b.bitcast(b.fcmp_ordered(">=", part, floors), i16), i64)))
        with w.during(lambda: bits.now.differs(0)):
            zeros = call(b, "llvm.cttz.i64", i64, bits.now.value, ir.Constant(ir.IntType(1), 1))
            take(place.now + Num(b, zeros))
            bits.set(bits.now & (bits.now - 1))
        place.set(place.now + LANES)
    with w.during(lambda: place.now < end):
        with w.when(w.load(f32, row, place.now) >= floor):
            take(place.now)
        place.set(place.now + 1)
    w.give(found.now)
    return w.function
