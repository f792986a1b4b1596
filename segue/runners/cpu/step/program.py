"""A model's step as instructions: one row of numbers per phase, written once when the model is loaded."""

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from segue.runners.cpu.anatomy.layers import Layer
from segue.runners.cpu.anatomy.tensors import DENSE_NORMS
from segue.runners.cpu.memory import zeros
from segue.runners.cpu.step import board as on
from segue.runners.cpu.weights import Weights

Row = list[int]

NORM_WORDS = 14  # words of a norm's instruction before its kind: see rows.py


NORMS = {"rms": on.RMS_NORM, "layer": on.LAYER_NORM}
ACTIVATIONS = {
    "silu": on.SILU,
    "gelu": on.GELU,
    "squared relu": on.SQUARED_RELU,
    "clamped silu": on.CLAMPED_SILU,
    "xielu": on.XIELU,
}
ROUTINGS = {
    "softmax": on.SOFTMAX,
    "renormalised": on.RENORMALISED,
    "of the chosen": on.OF_THE_CHOSEN,
    "sigmoid": on.SIGMOID,
    "sigmoid renormalised": on.SIGMOID_RENORMALISED,
    "sigmoid before": on.SIGMOID_BY_SCORE,
}
ROUTINGS_TO_1 = {"softmax": on.RENORMALISED, "sigmoid": on.SIGMOID_RENORMALISED}


@dataclass(frozen=True)
class Mixture:
    """Addresses of the arrays of a mixture of experts; see step/mixture/routing.py."""

    scores: int
    chances: int
    chosen: int
    shares: int
    places: int
    order: int
    active: int
    filled: int
    out: int


@dataclass(frozen=True)
class Places:
    """Addresses that the instructions name, besides those of weights."""

    projected: int  # output of the products for queries, keys and values
    attended: int  # output of the product after attention
    added: int  # output of the feed-forward
    logits: int
    logits_row: int  # floats
    kv: tuple[tuple[int, int], ...]  # of each layer: its keys and its values in block 0
    block_bytes: int  # from one block to the next
    turns: tuple[int, ...]  # cosines and sines, then those of layers with a window; temperatures
    mixture: Mixture
    layer_inputs: int  # embeddings of all layers, [rows][layers][columns]
    layer_gate: int  # what gates those of a layer


@dataclass(frozen=True)
class Summand:
    """An output that the next norm first adds to the residual."""

    address: int
    bias: int
    norm: int  # weights of the output's own norm, or 0


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


def _phases(weights: Weights, places: Places, tile_outputs: int) -> Iterator[Row]:
    anatomy = weights.anatomy
    summands: list[Summand] = []
    source, scale = on.FROM_EMBEDDING, 0
    if anatomy.layer_columns:
        yield _norm(weights, "", "", source, [])
        yield from _layer_inputs(weights, places)
        source = on.FROM_SUM
    for layer in range(anatomy.layers):
        name = f"blk.{layer}."
        before_attention, before_feed_forward = anatomy.family.norms
        yield _norm(weights, name, before_attention, source, summands, sum_scale=scale)
        yield from _attention(weights, places, layer)
        attended = _summand(weights, name, "attn_output", places.attended, 0)
        if not anatomy.is_parallel:
            yield _norm(weights, name, before_feed_forward, on.FROM_SUM, [attended])
        elif not anatomy.shares_norm:
            yield _norm(weights, name, before_feed_forward, on.FROM_SUM, [])
        if anatomy.has_experts(layer):
            yield from _experts(weights, places, layer, tile_outputs)
        else:
            hidden = anatomy.by_layer[layer].hidden
            shape = weights.xielu(layer) if anatomy.family.activation == "xielu" else 0
            yield from _feed_forward(
                weights, name, tile_outputs, "", hidden, places.added, shape=shape
            )
        added = _summand(weights, name, "ffn_down", places.added, 1)
        summands = [attended, added] if anatomy.is_parallel else [added]
        if anatomy.layer_columns:
            yield _norm(weights, name, "", on.FROM_SUM, summands)
            yield from _layer_gate(weights, places, layer)
            summands = [Summand(places.attended, 0, weights.vector(f"{name}post_norm.weight"))]
        source, scale = on.FROM_SUM, weights.vector(f"{name}layer_output_scale.weight")
    yield _norm(weights, "", "output_norm", on.FROM_WANTED, summands, sum_scale=scale)
    logits = [places.logits, places.logits_row]
    yield [on.PRODUCT, on.INPUT_FLOATS, on.WANTED, *logits, 1, weights.head, 0]
    bias = weights.vector("output.bias")
    if bias or anatomy.logit_scale or anatomy.logit_cap:
        scales = float_word(anatomy.logit_scale), float_word(anatomy.logit_cap)
        yield [on.LOGITS, *logits, bias, *scales]


def _summand(weights: Weights, name: str, product: str, place: int, which: int) -> Summand:
    norm = weights.anatomy.family.after[which]
    weight = weights.vector(f"{name}{norm}.weight") if norm else 0
    return Summand(place, weights.vector(f"{name}{product}.bias"), weight)


def _norm(
    weights: Weights,
    name: str,
    norm: str,
    source: int,
    summands: Sequence[Summand],
    *,
    sum_scale: int = 0,
    end: str = "weight",
) -> Row:
    """The words of rows.py, in its order. `end`: of the name of the norm's weights."""
    anatomy, family = weights.anatomy, weights.anatomy.family
    row = [on.NORM, source]
    if source == on.FROM_EMBEDDING:
        learned = weights.matrix("position_embd.weight") if family.turns == "none" else 0
        row += [weights.matrix("token_embd.weight"), float_word(anatomy.embedding_scale), learned]
    else:
        row += [0, 0, 0]
    for each in summands:
        scale = float_word(anatomy.residual_scale)
        row += [each.address, 4 * anatomy.width, each.bias, each.norm, scale]
    row += [0] * (1 + NORM_WORDS - len(row))
    kind = NORMS[family.norm]
    vectors = [weights.vector(f"{name}{norm}.{end}"), weights.vector(f"{name}{norm}.bias")]
    if not family.has_norm_weights:
        vectors[0] = weights.ones(anatomy.width)
    own = kind if norm else on.NO_NORM
    return [*row, own, *vectors, float_word(anatomy.epsilon), kind, sum_scale]


# --- embeddings of layers ---


def _layer_inputs(weights: Weights, places: Places) -> Iterator[Row]:
    """The words of layer_embeddings.py, in its order."""
    anatomy, columns = weights.anatomy, weights.anatomy.layer_columns
    whole, product = columns * anatomy.layers, weights.matrix("per_layer_model_proj.weight")
    yield [on.PRODUCT, on.INPUT_FLOATS, on.ROWS, places.layer_inputs, whole, 1, product, 0]
    norm = weights.vector("per_layer_proj_norm.weight")
    row = [places.layer_inputs, weights.matrix("per_layer_token_embd.weight"), anatomy.layers]
    row += [columns, norm, float_word(anatomy.epsilon)]
    scales = 1 / math.sqrt(anatomy.width), math.sqrt(columns), 1 / math.sqrt(2)
    yield [on.LAYER_INPUTS, *row, *map(float_word, scales)]


def _layer_gate(weights: Weights, places: Places, layer: int) -> Iterator[Row]:
    """Its output goes to `attended`, which was added to the residual already."""
    anatomy, columns, name = weights.anatomy, weights.anatomy.layer_columns, f"blk.{layer}."
    gate, out = (weights.matrix(f"{name}{part}.weight") for part in ("inp_gate", "proj"))
    yield [on.PRODUCT, on.INPUT_FLOATS, on.ROWS, places.layer_gate, columns, 1, gate, 0]
    row = [places.layer_gate, places.layer_inputs + 4 * layer * columns]
    row += [4 * columns * anatomy.layers, columns, ACTIVATIONS[anatomy.family.activation]]
    yield [on.LAYER_GATE, *row]
    yield [on.PRODUCT, on.HIDDEN_FLOATS, on.ROWS, places.attended, anatomy.width, 1, out, 0]


# --- attention ---


def _attention(weights: Weights, places: Places, number: int) -> Iterator[Row]:
    anatomy, layer, name = weights.anatomy, weights.anatomy.by_layer[number], f"blk.{number}."
    yield _projection(weights, places, layer, name)
    if anatomy.family.head_norms == "whole":
        row = [places.projected, 4 * layer.outputs]
        row += [NORMS[anatomy.family.norm], float_word(anatomy.epsilon)]
        row += [0, layer.queries, weights.vector(f"{name}attn_q_norm.weight")]
        row += [4 * layer.queries, layer.keys, weights.vector(f"{name}attn_k_norm.weight")]
        yield [on.WHOLE_NORMS, *row]
    heads = _heads(weights, places, number)
    yield [on.HEADS, *heads]
    yield [on.ATTEND, *heads]
    if layer.gate:
        gate = places.projected + 4 * layer.projected
        yield [on.QUANTISE, layer.queries, gate, 4 * layer.outputs]
    elif layer.shared * layer.head_size % 32:
        yield [on.QUANTISE, layer.queries]
    output = weights.matrix(f"{name}attn_output.weight")
    yield [on.PRODUCT, on.HEADS_FLOATS, on.ROWS, places.attended, anatomy.width, 1, output, 0]


def _projection(weights: Weights, places: Places, layer: Layer, name: str) -> Row:
    """The product for queries, keys and values; their outputs are next to each other, and that of a gate after them."""
    row = [on.PRODUCT, on.INPUT_FLOATS, on.ROWS, places.projected, layer.outputs]
    # Keys that are values too are computed twice: a norm of its own changes each in place.
    parts = ("q", "k", "v" if layer.has_values else "k") if layer.has_keys else ("q",)
    starts = (0, layer.queries, layer.queries + layer.keys)
    if weights.anatomy.has_fused_heads:
        parts = ("qkv",)
    own = [*zip(parts, starts, strict=False)]
    own += [("gate", layer.projected)] if layer.gate else []
    row.append(len(own))
    for part, start in own:
        row += [weights.matrix(f"{name}attn_{part}.weight"), 4 * start]
    return row


def _heads(weights: Weights, places: Places, number: int) -> Row:
    """The words of heads.py, in its order."""
    anatomy, layer, name = weights.anatomy, weights.anatomy.by_layer[number], f"blk.{number}."
    starts = (0, layer.queries, layer.queries + layer.keys) if layer.has_keys else (0, 0, 0)
    if anatomy.has_fused_heads:
        biases = [weights.vector(f"{name}attn_qkv.bias", start) for start in starts]
    else:
        biases = [weights.vector(f"{name}attn_{part}.bias") for part in "qkv"]
    norms, own = [0, 0], 4 * layer.head_size if anatomy.family.head_norms == "own" else 0
    if anatomy.family.head_norms in ("each", "each or none", "own"):
        norms = [weights.vector(f"{name}attn_{part}_norm.weight") for part in "qk"]
    if anatomy.family.head_norms == "unweighted" and anatomy.has_head_norms and layer.pairs:
        norms = [weights.ones(layer.head_size)] * 2
    grows = anatomy.temperature and not (anatomy.family.temperature and layer.pairs)
    return [
        *places.kv[number],
        places.block_bytes,
        places.projected,
        4 * layer.outputs,
        *(4 * start for start in starts),
        layer.head_size,
        layer.shared,
        layer.key_heads,
        layer.pairs,
        int(anatomy.family.turns == "neighbours"),
        *(places.turns[2:4] if layer.window else places.turns[:2]),
        float_word(anatomy.query_scale),
        *biases,
        *norms,
        float_word(anatomy.epsilon),
        NORMS[anatomy.family.norm],
        *((own, own) if norms[0] else (0, 0)),
        layer.window,
        float_word(anatomy.score_cap),
        weights.vector(f"{name}attn_sinks.weight"),
        int(anatomy.family.norms_heads_last),
        places.turns[4] if grows else 0,
        weights.ones(layer.head_size) if anatomy.family.norms_values else 0,
    ]


# --- the feed-forward ---


def _feed_forward(
    weights: Weights,
    name: str,
    tile_outputs: int,
    kind: str,
    hidden: int,
    out: int,
    *,
    shape: int = 0,
) -> Iterator[Row]:
    """The feed-forward that all rows take. `kind` is the suffix of its tensors' names; `shape`: see products.py."""
    anatomy = weights.anatomy
    gate = weights.matrix(f"{name}ffn_gate{kind}.weight") if anatomy.family.is_gated else 0
    up = weights.matrix(f"{name}ffn_up{kind}.weight")
    biases = [weights.vector(f"{name}ffn_{part}{kind}.bias") for part in ("gate", "up")]
    activation = ACTIVATIONS[anatomy.family.activation]
    yield [on.GATED, gate, up, hidden, tile_outputs, activation, *biases, shape]
    down = weights.matrix(f"{name}ffn_down{kind}.weight")
    yield [on.PRODUCT, on.HIDDEN_FLOATS, on.ROWS, out, anatomy.width, 1, down, 0]


def _experts(weights: Weights, places: Places, layer: int, tile_outputs: int) -> Iterator[Row]:
    """The words of the files in mixture, in their order."""
    anatomy, kept, family = weights.anatomy, places.mixture, weights.anatomy.family
    name, is_dense = f"blk.{layer}.", family.shared_expert == "dense"
    shared = places.attended if anatomy.shared_hidden or is_dense else 0
    if shared:  # `attended` can be reused: it was added to the residual already
        kind, hidden = "_shexp", anatomy.shared_hidden
        if is_dense:
            kind, hidden = "", anatomy.by_layer[layer].hidden
        yield from _feed_forward(weights, name, tile_outputs, kind, hidden, shared)
    if is_dense:
        yield _norm(weights, name, "ffn_gate_inp", on.FROM_SUM, [], end="scale")
    common = [kept.scores, anatomy.experts, anatomy.experts_used, kept.chosen, kept.shares]
    common += [kept.places, kept.order, kept.active, kept.filled]

    def phase(*own: int) -> Row:
        return [*own, *[0] * (8 - len(own)), *common]

    router = weights.matrix(f"{name}ffn_gate_inp.weight")
    yield [on.PRODUCT, on.INPUT_FLOATS, on.ROWS, kept.scores, anatomy.experts, 1, router, 0]
    before, *after = DENSE_NORMS if is_dense else ("", "", "")
    if before:
        yield _norm(weights, name, before, on.FROM_SUM, [])
    routings = ROUTINGS | (ROUTINGS_TO_1 if anatomy.renormalises else {})
    bias, choice = (weights.vector(f"{name}{of}.bias") for of in ("ffn_gate_inp", "exp_probs_b"))
    chances = kept.chances if choice or family.routing.startswith("sigmoid") else 0
    scales = float_word(anatomy.share_scale), weights.vector(f"{name}ffn_down_exps.scale")
    route = phase(on.ROUTE, routings[family.routing], bias, chances, choice, *scales)
    yield [*route, anatomy.groups, anatomy.groups_used]
    yield phase(on.SORT)
    weighs = int(family.routing == "sigmoid before")
    yield phase(on.GATHER, int(weights.has_float_experts), weighs)
    gate, up, down = (
        weights.experts(f"{name}ffn_{part}_exps.weight") for part in ("gate", "up", "down")
    )
    biases = [weights.vector(f"{name}ffn_{part}_exps.bias") for part in ("gate", "up", "down")]
    hidden = anatomy.expert_hidden
    activation = ACTIVATIONS[family.activation]
    yield phase(on.EXPERTS, gate, up, hidden, tile_outputs, activation, *biases[:2])
    yield phase(on.EXPERTS_DOWN, down, kept.out, hidden)
    gated = weights.vector(f"{name}ffn_gate_inp_shexp.weight")
    last = phase(on.COMBINE, 0, kept.out, weighs, biases[2], places.added, shared, gated)
    norms = [weights.vector(f"{name}{norm}.weight") for norm in reversed(after)]
    yield [*last, *norms, float_word(anatomy.epsilon)]


def block_bytes(layer: Layer) -> int:
    """Bytes for the keys of 32 tokens; the values take as many."""
    return layer.keys * 32 * 2


def float_word(value: float) -> int:
    """A word whose first four bytes are the float."""
    word: int = struct.unpack("<q", struct.pack("<fI", value, 0))[0]
    return word
