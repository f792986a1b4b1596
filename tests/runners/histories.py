"""Whatever may be done to the slots of a runner, and the tokens that they hold after it."""

import random
from collections.abc import Iterable

from segue.engine.seam import Runner, Span

NUM_SLOTS = 4

Operation = tuple[str, int, int, int]  # its name, a slot, another one, a number of tokens


def perform(
    runner: Runner, operations: Iterable[Operation], seed: int, longest: int
) -> list[list[int]]:
    """Those that are possible, in slots that were empty; sequences stay below `longest`. What each slot holds then."""
    draw = random.Random(seed)
    held: list[list[int]] = [[] for _ in range(NUM_SLOTS)]
    for name, slot, other, amount in operations:
        fits = len(held[slot]) + amount < longest and amount <= runner.cells_free
        if name == "decode" and fits:
            tokens = [draw.randrange(256) for _ in range(amount)]
            runner.decode([Span(slot, tokens, len(held[slot]), 0)])
            held[slot] += tokens
        elif name == "fork" and not held[other] and slot != other:
            length = min(amount, len(held[slot]))
            runner.fork(slot, other, length)
            held[other] = held[slot][:length]
        elif name == "trim":
            length = min(amount, len(held[slot]))
            runner.trim(slot, length)
            del held[slot][length:]
        elif name == "free":
            runner.free(slot)
            held[slot] = []
    return held
