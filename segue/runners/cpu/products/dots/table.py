"""Which function computes the dot products of a flavour."""

from collections.abc import Callable

from segue.runners.cpu.emit import Builder, Value
from segue.runners.cpu.products.dots import arm, generic, x86
from segue.runners.cpu.products.dots.vectors import Part

_DOTS: dict[str, Callable[[Builder, Part], list[list[Value]]]] = {
    "vnni": x86.vnni,
    "maddubs": x86.maddubs,
    "sdot": arm.sdot,
    "smmla": arm.smmla,
    "smull": arm.smull,
    "generic": generic.generic,
}


def sums(b: Builder, part: Part) -> list[list[Value]]:
    """For each row and each vector of outputs: the dot product of the activations with (code - zero).

    For each pair of rows, and twice as many vectors, where the sums are in the order of pairs.py.
    """
    return _DOTS[part.kind.flavour.dot](b, part)
