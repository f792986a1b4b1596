"""RWKV: time mix, up to the product after it, and channel mix."""

from collections.abc import Iterator

import numpy as np

from segue.runners.cpu.architectures.states.recurrence import MIXTURES, Recurrence
from segue.runners.cpu.architectures.states.rwkv import MIXED, pairs
from segue.runners.cpu.architectures.tensors import expert_name
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.program.feed_forward import gated
from segue.runners.cpu.step.program.places import Places
from segue.runners.cpu.step.program.words import (
    ACTIVATIONS,
    Row,
    float_word,
    matrices,
    product,
    products,
)
from segue.runners.cpu.weights import Weights

_LERPS = "rwkvag"  # in a file's order: what each mixture of rows is for
_READ = {"receptance": "r", "key": "k", "value": "v"}  # matrices, and what they take
_BENT = {"w": on.TANH, "g": on.LOGISTIC}  # between the two matrices of a pair
_EPSILON = 64e-5  # of the norm of heads, whatever the file says


def _shifted(which: str) -> int:
    """The board's index of a mixture."""
    return on.SHIFTED + 3 * _LERPS.index(which)


def time_mix(weights: Weights, places: Places, number: int, layer: Recurrence) -> Iterator[Row]:
    """A row has r, k and v, then what pairs of matrices have between them, then what they give."""
    name, width, found = f"blk.{number}.time_mix_", layer.taken, pairs(layer)
    lerps = weights.vector(f"{name}lerp_fused.weight")
    count = len(_LERPS) if "g" in found else len(_LERPS) - 1
    yield [on.SHIFT, count, lerps, places.states[number], 4 * layer.channels]
    reads = [
        (weights.matrix(f"{name}{matrix}.weight"), 4 * i * width, _shifted(which))
        for i, (matrix, which) in enumerate(_READ.items())
    ]
    narrow, own = 3 * width, []
    for which, rank in found.items():
        own += [(weights.matrix(f"{name}{which}1.weight"), 4 * narrow, _shifted(which))]
        narrow += rank
    yield products(places.projected, layer.outputs, [*reads, *own])
    row = [places.projected + 12 * width, 4 * layer.outputs, len(found)]
    for which, rank in found.items():
        row += [rank, _BENT.get(which, on.PLAIN)]
    yield [on.BEND, *row]
    wide = {which: 4 * (narrow + i * width) for i, which in enumerate(found)}
    seconds = [
        (weights.matrix(f"{name}{which}2.weight"), start, on.PAIRED + 3 * i)
        for i, (which, start) in enumerate(wide.items())
    ]
    yield products(places.projected, layer.outputs, seconds)
    given = {which: places.projected + start for which, start in wide.items()}
    yield _wkv(weights, places, number, layer, given)


def _wkv(
    weights: Weights, places: Places, number: int, layer: Recurrence, given: dict[str, int]
) -> Row:
    """The words of wkv_rows.py, in its order. `given`: addresses of what pairs of matrices give."""
    name, width = f"blk.{number}.time_mix_", layer.taken
    vectors = [weights.vector(f"{name}{of}.weight") for of in ("w0", "a0", "v0")]
    vectors += [weights.vector(f"{name}{of}.weight") for of in ("k_k", "k_a", "r_k")]
    norm = [weights.vector(f"{name}ln.{end}") for end in ("weight", "bias")]
    return [
        on.WKV,
        *matrices(layer, places.states[number]),
        4 * layer.outputs,
        *(places.projected + 4 * i * width for i in range(3)),
        *(given.get(which, 0) for which in "wavg"),
        *vectors,
        *(norm if all(norm) else (0, 0)),
        float_word(_EPSILON),
        places.first_values,
    ]


def time_mix6(weights: Weights, places: Places, number: int, layer: Recurrence) -> Iterator[Row]:
    """RWKV 6's: what a mixture of rows takes of each is computed, of another such mixture.

    A row has what mixtures are made of, and they; then r, k, v and gates; then what decays are made of, and they.
    """
    name, width, rank = f"blk.{number}.time_mix_", layer.taken, layer.rank
    row_floats, kept = layer.outputs, layer.key_heads * layer.size
    shift = [places.states[number], 4 * layer.channels]

    def matrix(of: str) -> int:
        return weights.matrix(f"{name}{of}.weight")

    def vector(of: str) -> int:
        return weights.vector(f"{name}{of}")

    yield [on.SHIFT, 1, vector("lerp_x.weight"), *shift, 0, 0, 1]
    yield product(places.projected, row_floats, on.SHIFTED, [(matrix("w1"), 0)])
    yield [on.BEND, places.projected, 4 * row_floats, MIXTURES, *[rank, on.TANH] * MIXTURES]
    more = MIXTURES * rank
    seconds = [
        (
            weights.matrix(expert_name(f"{name}w2.weight", i)),
            4 * (more + i * width),
            on.PAIRED + 3 * i,
        )
        for i in range(MIXTURES)
    ]
    yield products(places.projected, row_floats, seconds)
    lerps = vector("lerp_fused.weight")
    yield [on.SHIFT, MIXTURES, lerps, *shift, places.projected + 4 * more, 4 * row_floats]
    starts, start = {}, more + MIXTURES * width
    for of, size in {"receptance": width, "key": kept, "value": kept, "gate": width}.items():
        starts[of], start = start, start + size
    starts |= {"decay_w1": start, "decay_w2": start + layer.ranks.decay}
    taken = zip(("receptance", "key", "value", "gate", "decay_w1"), "rkvgw", strict=True)
    parts = [
        (matrix(of), 4 * starts[of], on.SHIFTED + 3 * MIXED.index(which)) for of, which in taken
    ]
    yield products(places.projected, row_floats, parts)
    made = places.projected + 4 * starts["decay_w1"]
    yield [on.BEND, made, 4 * row_floats, 1, layer.ranks.decay, on.TANH]
    decays = [(matrix("decay_w2"), 4 * starts["decay_w2"])]
    yield product(places.projected, row_floats, on.PAIRED, decays)
    reads = ("receptance", "key", "value", "decay_w2", "gate")
    biases = ("receptance.bias", "key.bias", "value.bias", "decay.weight", "first.weight")
    yield [
        on.WKV6,
        *matrices(layer, places.states[number]),
        4 * row_floats,
        *(places.projected + 4 * starts[of] for of in reads),
        layer.heads // layer.key_heads,
        *map(vector, (*biases, "ln.weight", "ln.bias")),
        float_word(_EPSILON),
        float_word(1.0 / float(np.sqrt(np.float64(layer.size)))),
    ]


def channel_mix(weights: Weights, places: Places, number: int, tile_outputs: int) -> Iterator[Row]:
    """The row before that it takes is kept beside that of the time mix."""
    width, name = weights.hparams.width, f"blk.{number}.channel_mix_"
    is_gated = weights.hparams.family.is_output_gated
    lerps = weights.vector(f"{name}lerp_{'fused' if is_gated else 'k'}.weight")
    yield [on.SHIFT, 1 + is_gated, lerps, places.states[number] + 4 * width, 2 * 4 * width]
    key, value = (weights.matrix(f"{name}{matrix}.weight") for matrix in ("key", "value"))
    hidden, activation = weights.hparams.by_layer[number].hidden, weights.hparams.family.activation
    yield gated(0, key, hidden, tile_outputs, ACTIVATIONS[activation], source=on.SHIFTED)
    yield product(places.added, width, on.HIDDEN_FLOATS, [(value, 0)])
    if is_gated:
        gate = weights.matrix(f"{name}receptance.weight")
        yield product(places.projected, width, on.SHIFTED + 3, [(gate, 0)])
        yield [on.GATE_ROWS, places.added, places.projected, 4 * width]
