"""How fast a state fades: e^(a * softplus(x)), a at most 0; or within a bound."""

from segue.runners.cpu.emit import Builder, Value, splat
from segue.runners.cpu.kernel import FLOAT, define
from segue.runners.cpu.step.halves import lane
from segue.runners.cpu.step.vectors.elementwise import ROW_IN, ROW_OUT, elementwise
from segue.runners.cpu.step.vectors.functions import exp, sigmoid, softplus


@define(FLOAT, FLOAT, FLOAT)
def decay(b: Builder, a: Value, x: Value) -> Value:
    return lane(b, exp(b, b.fmul(splat(b, a), softplus(b, splat(b, x)))), 0)


@elementwise(FLOAT, ROW_IN, ROW_IN, ROW_OUT)
def decays(b: Builder, a: Value, x: Value, bias: Value) -> Value:
    """e^(a * softplus(x + bias))"""
    return exp(b, b.fmul(a, softplus(b, b.fadd(x, bias))))


@elementwise(FLOAT, FLOAT, ROW_IN, ROW_IN, ROW_OUT)
def bounded_decays(b: Builder, a: Value, least: Value, x: Value, bias: Value) -> Value:
    """e^(least * sigmoid(a * (x + bias)))"""
    share = sigmoid(b, b.fmul(b.fadd(x, bias), a))
    return exp(b, b.fmul(share, least))
