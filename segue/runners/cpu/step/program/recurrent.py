"""Layers that carry a state from token to token, from the products before it to the one after it."""

from collections.abc import Iterator

import numpy as np

from segue.runners.cpu.anatomy.recurrence import Recurrence
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.program.places import Places
from segue.runners.cpu.step.program.words import Row, float_word
from segue.runners.cpu.weights import Weights


def recurrent(weights: Weights, places: Places, number: int, layer: Recurrence) -> Iterator[Row]:
    name = f"blk.{number}."
    yield _projection(weights, places, layer, name)
    yield _convolution(weights, places, layer, number, is_silu=True)
    yield _delta(weights, places, layer, number)
    output, width = weights.matrix(f"{name}ssm_out.weight"), weights.anatomy.width
    yield [on.PRODUCT, on.HEADS_FLOATS, on.ROWS, places.attended, width, 1, output, 0]


def _projection(weights: Weights, places: Places, layer: Recurrence, name: str) -> Row:
    """Queries, keys and values; then gates, betas and alphas, which are one where they are grouped."""
    betas = layer.channels + layer.taken
    parts = {"attn_qkv": 0, "attn_gate": layer.channels}
    if weights.anatomy.family.is_delta_grouped:
        parts |= {"ssm_ba": betas}
    else:
        parts |= {"ssm_beta": betas, "ssm_alpha": betas + layer.heads}
    row = [on.PRODUCT, on.INPUT_FLOATS, on.ROWS, places.projected, layer.outputs, len(parts)]
    for part, start in parts.items():
        row += [weights.matrix(f"{name}{part}.weight"), 4 * start]
    return row


def _convolution(
    weights: Weights, places: Places, layer: Recurrence, number: int, *, is_silu: bool
) -> Row:
    """The words of convolution.py, in its order."""
    kernel, bias = (weights.vector(f"blk.{number}.ssm_conv1d.{end}") for end in ("weight", "bias"))
    row = [places.projected, 4 * layer.outputs, places.convolved, layer.channels, layer.taps]
    return [on.CONVOLVE, *row, kernel, bias, places.states[number], int(is_silu)]


def _delta(weights: Weights, places: Places, layer: Recurrence, number: int) -> Row:
    """The words of delta.py, in its order."""
    name, shared = f"blk.{number}.", layer.heads // layer.key_heads
    gates = places.projected + 4 * layer.channels
    betas = gates + 4 * layer.taken
    is_grouped = weights.anatomy.family.is_delta_grouped
    return [
        on.DELTA,
        places.convolved,
        4 * layer.channels,
        layer.heads,
        layer.key_heads,
        layer.size,
        shared if is_grouped else 1,
        gates,
        4 * layer.outputs,
        betas,
        betas + 4 * (shared if is_grouped else layer.heads),
        shared if is_grouped else layer.heads,
        8 * shared,
        weights.vector(f"{name}ssm_dt.bias"),
        weights.vector(f"{name}ssm_a"),
        weights.vector(f"{name}ssm_norm.weight"),
        float_word(weights.anatomy.epsilon),
        float_word(1.0 / float(np.sqrt(np.float64(layer.size)))),
        places.states[number] + 4 * layer.convolution_floats,
        4 * layer.head_floats,
    ]
