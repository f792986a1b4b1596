"""Activation functions of the feed-forward, 16 lanes at a time."""

from typing import Any

from segue.runners.cpu.emit import (
    Builder,
    Value,
    ahead,
    at,
    f32,
    floats,
    fma,
    greater,
    load,
    loop,
    splat,
    store,
)
from segue.runners.cpu.kernel import FLOAT, INT, VOID, compiled, define
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.lanes import exp, sigmoid, vectors

_CUBE, _ROOT = 0.044715, 1.5957691216057308  # twice the root of 2 / pi
_CLAMP, _STEEPNESS = 7.0, 1.702


@define(VOID, INT, INT, INT, INT)
def _silu_gate(b: Builder, gate: Value, up: Value, out: Value, count: Value) -> None:
    """out = gate * sigmoid(gate) * up"""
    with loop(b, vectors(b, count)) as each:
        g, u = (load(b, at(b, row, each.index, 64)) for row in (gate, up))
        store(b, b.fmul(b.fmul(g, sigmoid(b, g)), u), at(b, out, each.index, 64))


@define(VOID, INT, INT, INT, INT)
def _clamped_gate(b: Builder, gate: Value, up: Value, out: Value, count: Value) -> None:
    """out = g * sigmoid(1.702 g) * (u + 1), g at most 7, u from -7 to 7"""
    with loop(b, vectors(b, count)) as each:
        g, u = (load(b, at(b, row, each.index, 64)) for row in (gate, up))
        g, u = (_at_most(b, x, _CLAMP) for x in (g, u))
        u = greater(b, u, floats(-_CLAMP))
        bent = b.fmul(g, sigmoid(b, b.fmul(g, floats(_STEEPNESS))))
        store(b, b.fmul(bent, b.fadd(u, floats(1.0))), at(b, out, each.index, 64))


@define(VOID, INT, INT, INT, INT, FLOAT)
def limited_gate(b: Builder, gate: Value, up: Value, out: Value, count: Value, most: Value) -> None:
    """out = g * sigmoid(g) * u, where g * sigmoid(g) is at most `most`, and u from -most to most"""
    highest = splat(b, most)
    lowest = b.fneg(highest)
    with loop(b, vectors(b, count)) as each:
        g, u = (load(b, at(b, row, each.index, 64)) for row in (gate, up))
        g = b.fmul(g, sigmoid(b, g))
        g, u = (b.select(b.fcmp_ordered(">", x, highest), highest, x) for x in (g, u))
        u = b.select(b.fcmp_ordered("<", u, lowest), lowest, u)
        store(b, b.fmul(g, u), at(b, out, each.index, 64))


@define(VOID, INT, INT, INT)
def _gelu(b: Builder, x: Value, out: Value, count: Value) -> None:
    """out = x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), which is GELU by way of tanh"""
    with loop(b, vectors(b, count)) as each:
        value = load(b, at(b, x, each.index, 64))
        cubic = b.fadd(floats(1.0), b.fmul(b.fmul(value, value), floats(_CUBE)))
        inner = b.fmul(b.fmul(value, floats(_ROOT)), cubic)
        store(b, b.fmul(value, sigmoid(b, inner)), at(b, out, each.index, 64))


@define(VOID, INT, INT, INT)
def _relu(b: Builder, x: Value, out: Value, count: Value) -> None:
    with loop(b, vectors(b, count)) as each:
        value = greater(b, load(b, at(b, x, each.index, 64)), floats(0.0))
        store(b, value, at(b, out, each.index, 64))


@define(VOID, INT, INT, INT)
def _squared_relu(b: Builder, x: Value, out: Value, count: Value) -> None:
    with loop(b, vectors(b, count)) as each:
        value = greater(b, load(b, at(b, x, each.index, 64)), floats(0.0))
        store(b, b.fmul(value, value), at(b, out, each.index, 64))


@define(VOID, INT, INT, INT, INT)
def _xielu(b: Builder, x: Value, shape: Value, out: Value, count: Value) -> None:
    """xIELU: p x^2 + s x above 0, else n (e^min(x, most) - 1 - x) + s x. At `shape`: n, p, s, most."""
    n, p, s, most = (splat(b, load(b, ahead(b, shape, 4 * i), f32)) for i in range(4))
    with loop(b, vectors(b, count)) as each:
        value = load(b, at(b, x, each.index, 64))
        bounded = b.select(b.fcmp_ordered("<", value, most), value, most)
        below = b.fsub(b.fsub(exp(b, bounded), floats(1.0)), value)
        is_above = b.fcmp_ordered(">", value, floats(0.0))
        bent = b.select(is_above, b.fmul(b.fmul(p, value), value), b.fmul(below, n))
        store(b, fma(b, value, s, bent), at(b, out, each.index, 64))


@define(VOID, INT, INT, INT)
def multiply_into(b: Builder, x: Value, y: Value, count: Value) -> None:
    with loop(b, vectors(b, count)) as each:
        place = at(b, x, each.index, 64)
        store(b, b.fmul(load(b, place), load(b, at(b, y, each.index, 64))), place)


@define(VOID, INT, FLOAT, FLOAT, INT)
def bound(b: Builder, x: Value, least: Value, most: Value, count: Value) -> None:
    """Bring every number into these bounds, in place. What is not a number stays so."""
    low, high = splat(b, least), splat(b, most)
    with loop(b, vectors(b, count)) as each:
        place = at(b, x, each.index, 64)
        value = load(b, place)
        value = b.select(b.fcmp_ordered("<", value, low), low, value)
        store(b, b.select(b.fcmp_ordered(">", value, high), high, value), place)


def _at_most(b: Builder, x: Value, most: float) -> Value:
    return b.select(b.fcmp_ordered("<", x, floats(most)), x, floats(most))


@compiled
def activate(kind: Any, is_gated: Any, gate: Any, up: Any, out: Any, count: Any) -> None:
    """Apply the activation to `count` columns. If not `is_gated`, the input is at `gate`, and `up` is not read.

    Of xIELU, which is not gated, `up` is the address of its shape.
    """
    if kind == on.SILU:
        _silu_gate(gate, up, out, count)
        return
    if kind == on.CLAMPED_SILU:
        _clamped_gate(gate, up, out, count)
        return
    if kind == on.XIELU:
        _xielu(gate, up, out, count)
        return
    if kind == on.GELU:
        _gelu(gate, out, count)
    elif kind == on.RELU:
        _relu(gate, out, count)
    else:
        _squared_relu(gate, out, count)
    if is_gated:
        multiply_into(out, up, count)
