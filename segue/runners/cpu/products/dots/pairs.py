"""SMMLA's order: two rows by two outputs by eight columns in one instruction.

Packed weights: of the steps s and s + 2 (s = 0, 1, 4, 5), which are eight columns, a vector has two outputs. Where
other flavours have step s of the outputs a, b, c, d there is [a s, a s+2, b s, b s+2], and where they have step s + 2
[c s, c s+2, d s, d s+2]. Only codes of 8 bits: where codes must be expanded, moving sums and scales into this order
costs more than half of the dot products, so those formats keep the usual order and take dot products.

Sums: a vector belongs to two rows and two outputs, [row₀ a, row₀ b, row₁ a, row₁ b]. A tile keeps all its sums so and
changes their order when it writes them: nothing is moved in its loop. A single row has the usual order.
"""

from segue.runners.cpu.emit import Builder, Value, ahead, at, number
from segue.runners.cpu.products.dots.vectors import chosen
from segue.runners.cpu.products.layout import STEP, Format
from segue.runners.cpu.products.processor import Flavour


def is_paired(flavour: Flavour, form: Format) -> bool:
    """Whether the format's weights are packed in this order."""
    return flavour.dot == "smmla" and form.planes == (8,)


def place(b: Builder, start: Value, lane: Value, step: int, step_bytes: int) -> Value:
    """The address of an output's four columns, where a step takes `step_bytes` of all outputs together."""
    four, inside = b.udiv(lane, number(4)), b.urem(lane, number(4))
    start = at(b, start, four, 4 * STEP)
    start = at(b, start, b.udiv(inside, number(2)), 2 * step_bytes)
    start = at(b, start, b.urem(inside, number(2)), 2 * STEP)
    is_second = step >> 1 & 1
    return ahead(b, start, (step - 2 * is_second) * step_bytes + is_second * STEP)


def joined(b: Builder, first: Value, second: Value) -> Value:
    """A number of two rows, each of them in all lanes → [row₀, row₀, row₁, row₁]."""
    return chosen(b, first, second, [0, 1, 4, 5])


def spread(b: Builder, outputs: Value) -> list[Value]:
    """A number of four outputs → [a, b, a, b] and [c, d, c, d]."""
    return [chosen(b, outputs, outputs, places) for places in ([0, 1, 0, 1], [2, 3, 2, 3])]


def separated(b: Builder, sums: list[Value]) -> list[list[Value]]:
    """The sums of two rows → for each of them its vectors of four outputs."""
    halves = list(zip(sums[::2], sums[1::2], strict=True))
    return [
        [chosen(b, low, high, places) for low, high in halves]
        for places in ([0, 1, 4, 5], [2, 3, 6, 7])
    ]
