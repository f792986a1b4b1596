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
from segue.runners.cpu.step.vectors.elementwise import (
    ROW_IN,
    ROW_OUT,
    elementwise,
    multiply_into,
    vectors,
)
from segue.runners.cpu.step.vectors.functions import exp, sigmoid

_CUBE, _ROOT = 0.044715, 1.5957691216057308  # twice the root of 2 / pi
_CLAMP, _STEEPNESS = 7.0, 1.702


@elementwise(ROW_IN, ROW_IN, ROW_OUT)
def _silu_gate(b: Builder, gate: Value, up: Value) -> Value:
    return b.fmul(b.fmul(gate, sigmoid(b, gate)), up)


@elementwise(ROW_IN, ROW_IN, ROW_OUT)
def _clamped_gate(b: Builder, gate: Value, up: Value) -> Value:
    """g * sigmoid(1.702 g) * (u + 1), g at most 7, u from -7 to 7"""
    gate, up = (_at_most(b, x, _CLAMP) for x in (gate, up))
    up = greater(b, up, floats(-_CLAMP))
    bent = b.fmul(gate, sigmoid(b, b.fmul(gate, floats(_STEEPNESS))))
    return b.fmul(bent, b.fadd(up, floats(1.0)))


@elementwise(ROW_IN, ROW_IN, ROW_OUT, FLOAT)
def limited_gate(b: Builder, gate: Value, up: Value, most: Value) -> Value:
    """g * sigmoid(g) * u, where g * sigmoid(g) is at most `most`, and u from -most to most"""
    least = b.fneg(most)
    gate = b.fmul(gate, sigmoid(b, gate))
    gate, up = (b.select(b.fcmp_ordered(">", x, most), most, x) for x in (gate, up))
    return b.fmul(gate, b.select(b.fcmp_ordered("<", up, least), least, up))


@elementwise(ROW_IN, ROW_OUT)
def _gelu(b: Builder, x: Value) -> Value:
    """x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), which is GELU by way of tanh"""
    cubic = b.fadd(floats(1.0), b.fmul(b.fmul(x, x), floats(_CUBE)))
    inner = b.fmul(b.fmul(x, floats(_ROOT)), cubic)
    return b.fmul(x, sigmoid(b, inner))


@elementwise(ROW_IN, ROW_OUT)
def _relu(b: Builder, x: Value) -> Value:
    return greater(b, x, floats(0.0))


@elementwise(ROW_IN, ROW_OUT)
def _squared_relu(b: Builder, x: Value) -> Value:
    x = greater(b, x, floats(0.0))
    return b.fmul(x, x)


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
