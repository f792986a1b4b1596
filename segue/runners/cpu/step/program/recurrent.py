"""Layers that carry a state from token to token, from the products before it to the one after it."""

from collections.abc import Iterator

import numpy as np

from segue.runners.cpu.architectures.states.recurrence import Recurrence
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.program.places import Places
from segue.runners.cpu.step.program.rwkv import time_mix, time_mix6
from segue.runners.cpu.step.program.words import Row, float_word, matrices, product
from segue.runners.cpu.weights import Weights

_OUTPUTS = {
    "conv": "shortconv.out_proj",
    "kda": "attn_output",
    "wkv6": "time_mix_output",
    "wkv7": "time_mix_output",
}  # the matrices after them


def recurrent(
    weights: Weights, places: Places, number: int, layer: Recurrence, out: int
) -> Iterator[Row]:
    """`out`: the address of what it gives."""
    yield from _MADE[layer.mixer](weights, places, number, layer)
    name = _OUTPUTS.get(layer.mixer, "ssm_out")
    output, width = weights.matrix(f"blk.{number}.{name}.weight"), weights.hparams.width
    yield product(out, width, on.HEADS_FLOATS, [(output, 0)])


def _projection(
    weights: Weights,
    places: Places,
    layer: Recurrence,
    parts: dict[str, int],
    source: int = on.INPUT_FLOATS,
) -> Row:
    """`parts`: matrices, and where their outputs begin in a row."""
    own = [(weights.matrix(f"{name}.weight"), 4 * start) for name, start in parts.items()]
    return product(places.projected, layer.outputs, source, own)


# --- convolutions ---


def _short_convolution(
    weights: Weights, places: Places, number: int, layer: Recurrence
) -> Iterator[Row]:
    """The product gives gates of inputs, gates of outputs, and inputs."""
    yield _projection(weights, places, layer, {f"blk.{number}.shortconv.in_proj": 0})
    before, after, inputs = (places.projected + 4 * i * layer.channels for i in range(3))
    kernel = weights.vector(f"blk.{number}.shortconv.conv.weight")
    row = [inputs, 4 * layer.outputs, 0, layer.channels, layer.taps, kernel, 0]
    yield [on.CONVOLVE, *row, places.states[number], 0, before, after]


def _convolution(
    weights: Weights, places: Places, layer: Recurrence, number: int, start: int, out: int
) -> Row:
    """The words of convolution.py, in its order. `start`: of inputs in a row; `out`: 0 if a product takes them."""
    kernel, bias = (weights.vector(f"blk.{number}.ssm_conv1d.{end}") for end in ("weight", "bias"))
    inputs = places.projected + 4 * start
    row = [inputs, 4 * layer.outputs, out, layer.channels, layer.taps, kernel, bias]
    return [on.CONVOLVE, *row, places.states[number], 1]


# --- Mamba 2 ---


def _mamba(weights: Weights, places: Places, number: int, layer: Recurrence) -> Iterator[Row]:
    """The product gives gates, then inputs of the convolution, then a time for each head."""
    name, inner = f"blk.{number}.", layer.taken
    yield _projection(weights, places, layer, {f"{name}ssm_in": 0})
    yield _convolution(weights, places, layer, number, inner, places.convolved)
    row = [places.convolved, 4 * layer.channels]
    row += [places.projected + 4 * (inner + layer.channels), 4 * layer.outputs]
    row += [layer.heads, layer.size, layer.states, layer.key_heads]
    row += [places.states[number] + 4 * layer.convolution_floats, 4 * layer.head_floats]
    row += [4 * layer.change_floats]
    row += [weights.vector(f"{name}ssm_{of}") for of in ("dt.bias", "a", "d")]
    yield [on.SCAN, *row, places.convolved + 4 * inner, 4 * layer.channels]
    row = [places.projected, 4 * layer.outputs, inner, layer.key_heads]
    norm = weights.vector(f"{name}ssm_norm.weight")
    yield [on.MAMBA_GATE, *row, norm, float_word(weights.hparams.epsilon)]


# --- Mamba 1 ---


def _mamba1(weights: Weights, places: Places, number: int, layer: Recurrence) -> Iterator[Row]:
    """The products give inputs of the convolution and gates; then, from what it gives, what times are made of, B and C;
    then times.
    """
    name, inner, states, row = f"blk.{number}.", layer.taken, layer.states, 4 * layer.outputs
    made, times = 2 * inner, 2 * inner + layer.rank + 2 * states
    yield _projection(weights, places, layer, {f"{name}ssm_in": 0})
    yield _convolution(weights, places, layer, number, 0, 0)
    yield _projection(weights, places, layer, {f"{name}ssm_x": made}, on.HEADS_FLOATS)
    norms = [weights.vector(f"{name}ssm_{part}_norm.weight") for part in ("dt", "b", "c")]
    if layer.is_normed:
        norms = [weights.ones(count) for count in (layer.rank, states, states)]
    words = [places.projected + 4 * made, row, layer.rank, on.INPUT_FLOATS]
    words += [states, places.projected + 4 * (made + layer.rank), *norms]
    yield [on.NARROW, *words, float_word(weights.hparams.epsilon)]
    yield _projection(weights, places, layer, {f"{name}ssm_dt": times})
    starts = (made + layer.rank, times, inner)
    words = [inner, states, *(places.projected + 4 * start for start in starts), row]
    words += [places.states[number] + 4 * layer.convolution_floats]
    words += [4 * layer.head_floats, 4 * layer.change_floats]
    yield [on.SELECT, *words, *(weights.vector(f"{name}ssm_{of}") for of in ("dt.bias", "a", "d"))]


# --- PLaMo 2 ---


def _plamo(weights: Weights, places: Places, number: int, layer: Recurrence) -> Iterator[Row]:
    """The products give gates and inputs head by head, which are parted; then, of what the convolution gives, B, C and
    what times are made of; then times.
    """
    name, inner, states, row = f"blk.{number}.", layer.taken, layer.states, 4 * layer.outputs
    starts = (2 * inner, 3 * inner, 4 * inner, 4 * inner + 2 * states, layer.outputs - layer.heads)
    inputs, gates, made, short, times = (places.projected + 4 * start for start in starts)
    epsilon = float_word(weights.hparams.epsilon)
    yield _projection(weights, places, layer, {f"{name}ssm_in": 0})
    yield [on.PART, places.projected, row, layer.heads, layer.size, inputs]
    yield _convolution(weights, places, layer, number, starts[0], places.convolved)
    yield [on.NARROW, places.convolved, 4 * inner, inner, on.HEADS_FLOATS]
    yield _projection(weights, places, layer, {f"{name}ssm_x": starts[2]}, on.HEADS_FLOATS)
    norms = [weights.vector(f"{name}ssm_{part}_norm.weight") for part in ("dt", "b", "c")]
    yield [on.NARROW, short, row, layer.rank, on.INPUT_FLOATS, states, made, *norms, epsilon]
    yield _projection(weights, places, layer, {f"{name}ssm_dt": starts[4]})
    words = [places.convolved, 4 * inner, times, row, layer.heads, layer.size, states, 1]
    words += [places.states[number] + 4 * layer.convolution_floats]
    words += [4 * layer.head_floats, 4 * layer.change_floats]
    words += [weights.vector(f"{name}ssm_{of}") for of in ("dt.bias", "a", "d")]
    yield [on.SCAN, *words, made, row]
    yield [on.MAMBA_GATE, gates, row, inner, 1, 0, epsilon]


# --- delta nets ---


def _delta_net(weights: Weights, places: Places, number: int, layer: Recurrence) -> Iterator[Row]:
    yield _delta_projection(weights, places, layer, f"blk.{number}.")
    yield _convolution(weights, places, layer, number, 0, places.convolved)
    gates = layer.channels
    betas = gates + layer.taken
    shared = layer.heads // layer.key_heads
    is_grouped = weights.hparams.family.is_delta_grouped
    alphas = betas + (shared if is_grouped else layer.heads)
    yield _delta(weights, places, layer, number, (gates, betas, alphas))


def _kda(weights: Weights, places: Places, number: int, layer: Recurrence) -> Iterator[Row]:
    """The products give queries, keys and values; then what fading and gates are made of, which become inputs; then
    these and betas. Where one matrix makes each of them, the first products give all.
    """
    name, row = f"blk.{number}.", 4 * layer.outputs
    made, whole = layer.channels, layer.taken
    if layer.least:
        starts = (made + whole, made + 2 * whole, made)
        names = ("attn_q", "attn_k", "attn_v", "ssm_f_a", "ssm_g_a", "ssm_beta")
        parts = {f"{name}{part}": i * whole for i, part in enumerate(names)}
        yield _projection(weights, places, layer, parts)
        yield _convolution(weights, places, layer, number, 0, places.convolved)
        yield _delta(weights, places, layer, number, starts)
        return
    fading = made + 2 * layer.size
    parts = {f"attn_{part}": i * whole for i, part in enumerate("qkv")}
    parts |= {"ssm_f_a": made, "ssm_g_a": made + layer.size, "ssm_beta": fading + 2 * whole}
    parts = {f"{name}{part}": start for part, start in parts.items()}
    yield _projection(weights, places, layer, parts)
    yield _convolution(weights, places, layer, number, 0, places.convolved)
    targets = {"f": on.INPUT_FLOATS, "g": on.HEADS_FLOATS}
    for i, target in enumerate(targets.values()):
        yield [on.NARROW, places.projected + 4 * (made + i * layer.size), row, layer.size, target]
    for i, (part, source) in enumerate(targets.items()):
        matrix = {f"{name}ssm_{part}_b": fading + i * whole}
        yield _projection(weights, places, layer, matrix, source)
    starts = (fading + whole, fading + 2 * whole, fading)
    yield _delta(weights, places, layer, number, starts)


def _delta_projection(weights: Weights, places: Places, layer: Recurrence, name: str) -> Row:
    """Queries, keys and values; then gates, betas and alphas, which are one where they are grouped."""
    betas = layer.channels + layer.taken
    parts = {"attn_qkv": 0, "attn_gate": layer.channels}
    if weights.hparams.family.is_delta_grouped:
        parts |= {"ssm_ba": betas}
    else:
        parts |= {"ssm_beta": betas, "ssm_alpha": betas + layer.heads}
    return _projection(weights, places, layer, {f"{name}{part}": at for part, at in parts.items()})


def _delta(
    weights: Weights,
    places: Places,
    layer: Recurrence,
    number: int,
    starts: tuple[int, int, int],
) -> Row:
    """The words of delta.py, in its order. `starts`: where gates, betas and alphas begin in a row."""
    name, shared = f"blk.{number}.", layer.heads // layer.key_heads
    gates, betas, alphas = (places.projected + 4 * start for start in starts)
    is_grouped = weights.hparams.family.is_delta_grouped
    return [
        on.DELTA,
        *matrices(layer, places.states[number]),
        places.convolved,
        4 * layer.channels,
        layer.key_heads,
        shared if is_grouped else 1,
        gates,
        4 * layer.outputs,
        betas,
        alphas,
        shared if is_grouped else layer.heads,
        8 * shared,
        weights.vector(f"{name}ssm_dt.bias"),
        weights.vector(f"{name}ssm_a"),
        weights.vector(f"{name}ssm_norm.weight"),
        float_word(weights.hparams.epsilon),
        float_word(1.0 / float(np.sqrt(np.float64(layer.size)))),
        int(layer.mixer == "kda"),
        float_word(layer.least),
    ]


_MADE = {
    "delta": _delta_net,
    "kda": _kda,
    "mamba": _mamba,
    "mamba1": _mamba1,
    "plamo": _plamo,
    "conv": _short_convolution,
    "wkv6": time_mix6,
    "wkv7": time_mix,
}
