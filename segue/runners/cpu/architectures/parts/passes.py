"""Layers that are passed several times.

"loops": all layers, so many times. "stacks": a low stack so many times, then a high one, and all that so many times;
the file counts the layers of all passes then.
"""

from typing import Literal, NamedTuple

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.family import Family

LOOPS, UNNORMED = "num_loops", "skip_loop_final_norm"
STACK, HIGH_CYCLES, LOW_CYCLES = (
    f"hrm.{key}" for key in ("layers_per_stack", "h_cycles", "l_cycles")
)
MOST_LAYERS = 512  # llama.cpp has no more

Ended = Literal["", "loop", "low", "high"]


class Place(NamedTuple):
    """Where a layer of a pass stands."""

    weights_of: int  # the layer whose tensors it has
    ended: Ended  # the pass that ends before it, if one does


def places(header: GgufHeader, family: Family, layers: int) -> list[Place]:
    """Of all layers that are computed, of a file whose `layers` are sound."""
    if family.passes == "loops":
        ended: Ended = "" if header.metadata.get(f"{header.architecture}.{UNNORMED}") else "loop"
        return [
            Place(layer, ended if loop and not layer else "")
            for loop in range(loops(header))
            for layer in range(layers)
        ]
    if family.passes == "none":
        return [Place(layer, "") for layer in range(layers)]
    stack, low = header.count(STACK), header.count(LOW_CYCLES)
    return [_in_stack(layer, stack, low) for layer in range(layers)]


def _in_stack(layer: int, stack: int, low: int) -> Place:
    cycle, place = divmod(layer, stack)
    is_high, was_high = cycle % (low + 1) == low, cycle % (low + 1) == 0
    ended: Ended = "" if place or not cycle else "high" if was_high else "low"
    return Place(place + stack * is_high, ended)


def loops(header: GgufHeader) -> int:
    return int(header.metadata.get(f"{header.architecture}.{LOOPS}", 1))


def wrong_passes(header: GgufHeader, family: Family) -> str | None:
    """Why passes make no sense: llama.cpp would end the process."""
    layers = header.count("block_count")
    if family.passes == "loops":
        if not 0 < layers * loops(header) <= MOST_LAYERS:
            return f"{layers} layers are passed {loops(header)} times"
    elif family.passes == "stacks":
        stack, high, low = (header.count(key) for key in (STACK, HIGH_CYCLES, LOW_CYCLES))
        if not min(stack, high, low) or stack * high * (low + 1) != layers:
            return (
                f"{high} times {low} low stacks and a high one of {stack} are not {layers} layers"
            )
    return None
