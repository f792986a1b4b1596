"""A model's step as instructions: one row of numbers a phase, written once when the model is loaded."""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from segue.runners.cpu.anatomy import Anatomy
from segue.runners.cpu.memory import zeros
from segue.runners.cpu.step import board as on
from segue.runners.cpu.weights import Weights

Row = list[int]


@dataclass(frozen=True)
class Places:
    """Addresses that the instructions name, besides those of weights."""

    projected: int  # what the products for queries, keys and values give
    attended: int  # what the product after attention gives
    added: int  # what the feed-forward gives
    logits: int
    logits_row: int  # floats
    keys: int
    values: int
    layer_bytes: int  # from one layer's keys or values to the next
    block_bytes: int  # from one block to the next
    cosines: int
    sines: int


Before = Callable[[int, int, Sequence[int]], Row | None]
"""The phase before a product: of the board's indices of its input and its rows, and its matrices."""


def nothing_before(source: int, rows: int, matrices: Sequence[int]) -> Row | None:
    return None


def program(
    weights: Weights, places: Places, tile_outputs: int, before: Before = nothing_before
) -> NDArray[np.int64]:
    """All phases of a step."""
    rows: list[Row] = []
    for row in _phases(weights, places, tile_outputs):
        if row[0] == on.PRODUCT:
            first = before(row[1], row[2], row[6 : 6 + 2 * row[5] : 2])
        else:
            first = before(on.INPUT_FLOATS, on.ROWS, row[1:3]) if row[0] == on.GATED else None
        rows += [first, row] if first else [row]
    made: NDArray[np.int64] = zeros((len(rows), on.INSTRUCTION_WORDS), np.int64)
    for i, row in enumerate(rows):
        made[i, : len(row)] = row
    return made


def projected_floats(anatomy: Anatomy) -> int:
    """A row of queries, keys and values."""
    return (anatomy.heads + 2 * anatomy.key_heads) * anatomy.head_size


def _phases(weights: Weights, places: Places, tile_outputs: int) -> Iterator[Row]:
    anatomy = weights.anatomy
    width = anatomy.width
    for layer in range(anatomy.layers):
        name = f"blk.{layer}."
        if layer == 0:
            source = [on.FROM_EMBEDDING, weights.matrix("token_embd.weight"), 0]
        else:
            source = [on.FROM_SUM, places.added, 4 * width]
        yield _norm(weights, f"{name}attn_norm.weight", source)
        yield _projection(weights, places, name)
        heads = _heads(weights, places, layer)
        yield [on.HEADS, *heads]
        yield [on.ATTEND, *heads]
        if anatomy.shared * anatomy.head_size % 32:
            yield [on.QUANTISE, anatomy.heads * anatomy.head_size]
        output = weights.matrix(f"{name}attn_output.weight")
        yield [on.PRODUCT, on.HEADS_FLOATS, on.ROWS, places.attended, width, 1, output, 0]
        attended = [on.FROM_SUM, places.attended, 4 * width]
        yield _norm(weights, f"{name}ffn_norm.weight", attended)
        gate, up = (weights.matrix(f"{name}ffn_{part}.weight") for part in ("gate", "up"))
        yield [on.GATED, gate, up, anatomy.hidden, tile_outputs]
        down = weights.matrix(f"{name}ffn_down.weight")
        yield [on.PRODUCT, on.HIDDEN_FLOATS, on.ROWS, places.added, width, 1, down, 0]
    yield _norm(weights, "output_norm.weight", [on.FROM_WANTED, places.added, 4 * width])
    logits = [places.logits, places.logits_row]
    yield [on.PRODUCT, on.INPUT_FLOATS, on.WANTED, *logits, 1, weights.head, 0]


def _norm(weights: Weights, name: str, source: Row) -> Row:
    return [on.NORM, *source, weights.vector(name), float_word(weights.anatomy.epsilon)]


def _projection(weights: Weights, places: Places, name: str) -> Row:
    """Queries, keys and values lie beside each other."""
    anatomy = weights.anatomy
    queries, keys = anatomy.heads * anatomy.head_size, anatomy.key_heads * anatomy.head_size
    q, k, v = (weights.matrix(f"{name}attn_{part}.weight") for part in "qkv")
    row = [on.PRODUCT, on.INPUT_FLOATS, on.ROWS, places.projected, projected_floats(anatomy)]
    return [*row, 3, q, 0, k, 4 * queries, v, 4 * (queries + keys)]


def _heads(weights: Weights, places: Places, layer: int) -> Row:
    """The words of heads.py, in its order."""
    anatomy, name = weights.anatomy, f"blk.{layer}."
    size = anatomy.head_size
    queries, keys = anatomy.heads * size, anatomy.key_heads * size
    return [
        places.keys + layer * places.layer_bytes,
        places.values + layer * places.layer_bytes,
        places.block_bytes,
        places.projected,
        4 * projected_floats(anatomy),
        0,
        4 * queries,
        4 * (queries + keys),
        size,
        anatomy.shared,
        anatomy.key_heads,
        anatomy.pairs,
        int(anatomy.family.turns == "neighbours"),
        places.cosines,
        places.sines,
        float_word(1.0 / float(np.sqrt(np.float64(size)))),
        *(weights.vector(f"{name}attn_{part}.bias") for part in "qkv"),
        *(weights.vector(f"{name}attn_{part}_norm.weight") for part in "qk"),
        float_word(anatomy.epsilon),
    ]


def block_bytes(anatomy: Anatomy) -> int:
    """Of the keys of 32 tokens in one layer; as many of values."""
    return anatomy.key_heads * anatomy.head_size * 32 * 2


def float_word(value: float) -> int:
    """A word whose first four bytes are the float."""
    word: int = struct.unpack("<q", struct.pack("<fI", value, 0))[0]
    return word
