"""A model's step as instructions: one row of numbers per phase, written once when the model is loaded."""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from segue.runners.cpu.anatomy.measures import Anatomy
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
}
ROUTINGS = {
    "softmax": on.SOFTMAX,
    "renormalised": on.RENORMALISED,
    "of the chosen": on.OF_THE_CHOSEN,
    "sigmoid": on.SIGMOID,
    "sigmoid renormalised": on.SIGMOID_RENORMALISED,
}
ROUTINGS_TO_1 = {"softmax": on.RENORMALISED, "sigmoid": on.SIGMOID_RENORMALISED}


@dataclass(frozen=True)
class Mixture:
    """Addresses of the arrays of a mixture of experts; see step/experts.py."""

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
    keys: int
    values: int
    layer_bytes: int  # from one layer's keys or values to the next
    block_bytes: int  # from one block to the next
    turns: tuple[int, ...]  # cosines and sines, then those of layers with a window; temperatures
    mixture: Mixture


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


def projected_floats(anatomy: Anatomy) -> int:
    """Floats in a row of queries, keys and values."""
    return anatomy.queries + 2 * anatomy.keys


def _phases(weights: Weights, places: Places, tile_outputs: int) -> Iterator[Row]:
    anatomy = weights.anatomy
    summands: list[Summand] = []
    for layer in range(anatomy.layers):
        name = f"blk.{layer}."
        source = on.FROM_SUM if layer else on.FROM_EMBEDDING
        before_attention, before_feed_forward = anatomy.family.norms
        yield _norm(weights, name, before_attention, source, summands)
        yield from _attention(weights, places, layer)
        attended = _summand(weights, name, "attn_output", places.attended, 0)
        if not anatomy.is_parallel:
            yield _norm(weights, name, before_feed_forward, on.FROM_SUM, [attended])
        elif not anatomy.shares_norm:
            yield _norm(weights, name, before_feed_forward, on.FROM_SUM, [])
        if anatomy.has_experts(layer):
            yield from _experts(weights, places, name, tile_outputs)
        else:
            yield from _feed_forward(weights, name, tile_outputs, "", anatomy.hidden, places.added)
        added = _summand(weights, name, "ffn_down", places.added, 1)
        summands = [attended, added] if anatomy.is_parallel else [added]
    yield _norm(weights, "", "output_norm", on.FROM_WANTED, summands)
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


def _norm(weights: Weights, name: str, norm: str, source: int, summands: Sequence[Summand]) -> Row:
    """The words of rows.py, in its order."""
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
    vectors = [weights.vector(f"{name}{norm}.{end}") for end in ("weight", "bias")]
    return [*row, kind if norm else on.NO_NORM, *vectors, float_word(anatomy.epsilon), kind]


# --- attention ---


def _attention(weights: Weights, places: Places, layer: int) -> Iterator[Row]:
    anatomy, name = weights.anatomy, f"blk.{layer}."
    yield _projection(weights, places, name)
    if anatomy.family.head_norms == "whole":
        row = [places.projected, 4 * projected_floats(anatomy)]
        row += [NORMS[anatomy.family.norm], float_word(anatomy.epsilon)]
        row += [0, anatomy.queries, weights.vector(f"{name}attn_q_norm.weight")]
        row += [4 * anatomy.queries, anatomy.keys, weights.vector(f"{name}attn_k_norm.weight")]
        yield [on.WHOLE_NORMS, *row]
    heads = _heads(weights, places, layer)
    yield [on.HEADS, *heads]
    yield [on.ATTEND, *heads]
    if anatomy.shared * anatomy.head_size % 32:
        yield [on.QUANTISE, anatomy.queries]
    output = weights.matrix(f"{name}attn_output.weight")
    yield [on.PRODUCT, on.HEADS_FLOATS, on.ROWS, places.attended, anatomy.width, 1, output, 0]


def _projection(weights: Weights, places: Places, name: str) -> Row:
    """The product for queries, keys and values; their outputs are next to each other."""
    anatomy = weights.anatomy
    row = [on.PRODUCT, on.INPUT_FLOATS, on.ROWS, places.projected, projected_floats(anatomy)]
    if anatomy.has_fused_heads:
        return [*row, 1, weights.matrix(f"{name}attn_qkv.weight"), 0]
    q, k, v = (weights.matrix(f"{name}attn_{part}.weight") for part in "qkv")
    return [*row, 3, q, 0, k, 4 * anatomy.queries, v, 4 * (anatomy.queries + anatomy.keys)]


def _heads(weights: Weights, places: Places, layer: int) -> Row:
    """The words of heads.py, in its order."""
    anatomy, name = weights.anatomy, f"blk.{layer}."
    size, window = anatomy.head_size, anatomy.windows[layer]
    starts = (0, anatomy.queries, anatomy.queries + anatomy.keys)
    if anatomy.has_fused_heads:
        biases = [weights.vector(f"{name}attn_qkv.bias", start) for start in starts]
    else:
        biases = [weights.vector(f"{name}attn_{part}.bias") for part in "qkv"]
    norms, own = [0, 0], 4 * size if anatomy.family.head_norms == "own" else 0
    if anatomy.family.head_norms in ("each", "each or none", "own"):
        norms = [weights.vector(f"{name}attn_{part}_norm.weight") for part in "qk"]
    return [
        places.keys + layer * places.layer_bytes,
        places.values + layer * places.layer_bytes,
        places.block_bytes,
        places.projected,
        4 * projected_floats(anatomy),
        *(4 * start for start in starts),
        size,
        anatomy.shared,
        anatomy.key_heads,
        anatomy.pairs if anatomy.rotated[layer] else 0,
        int(anatomy.family.turns == "neighbours"),
        *(places.turns[2:4] if window else places.turns[:2]),
        float_word(anatomy.query_scale),
        *biases,
        *norms,
        float_word(anatomy.epsilon),
        NORMS[anatomy.family.norm],
        *((own, own) if norms[0] else (0, 0)),
        window,
        float_word(anatomy.score_cap),
        weights.vector(f"{name}attn_sinks.weight"),
        int(anatomy.family.norms_heads_last),
        places.turns[4] if anatomy.temperature else 0,
    ]


# --- the feed-forward ---


def _feed_forward(
    weights: Weights, name: str, tile_outputs: int, kind: str, hidden: int, out: int
) -> Iterator[Row]:
    """The feed-forward that all rows take. `kind` is the suffix of its tensors' names."""
    anatomy = weights.anatomy
    gate = weights.matrix(f"{name}ffn_gate{kind}.weight") if anatomy.family.is_gated else 0
    up = weights.matrix(f"{name}ffn_up{kind}.weight")
    biases = [weights.vector(f"{name}ffn_{part}{kind}.bias") for part in ("gate", "up")]
    activation = ACTIVATIONS[anatomy.family.activation]
    yield [on.GATED, gate, up, hidden, tile_outputs, activation, *biases]
    down = weights.matrix(f"{name}ffn_down{kind}.weight")
    yield [on.PRODUCT, on.HIDDEN_FLOATS, on.ROWS, out, anatomy.width, 1, down, 0]


def _experts(weights: Weights, places: Places, name: str, tile_outputs: int) -> Iterator[Row]:
    """The words of experts.py, in its order."""
    anatomy, kept, family = weights.anatomy, places.mixture, weights.anatomy.family
    shared = places.attended if anatomy.shared_hidden else 0
    if shared:  # `attended` can be reused: it was added to the residual already
        yield from _feed_forward(
            weights, name, tile_outputs, "_shexp", anatomy.shared_hidden, shared
        )
    common = [kept.scores, anatomy.experts, anatomy.experts_used, kept.chosen, kept.shares]
    common += [kept.places, kept.order, kept.active, kept.filled]

    def phase(*own: int) -> Row:
        return [*own, *[0] * (8 - len(own)), *common]

    router = weights.matrix(f"{name}ffn_gate_inp.weight")
    yield [on.PRODUCT, on.INPUT_FLOATS, on.ROWS, kept.scores, anatomy.experts, 1, router, 0]
    routings = ROUTINGS | (ROUTINGS_TO_1 if anatomy.renormalises else {})
    bias, choice = (weights.vector(f"{name}{of}.bias") for of in ("ffn_gate_inp", "exp_probs_b"))
    chances = kept.chances if choice or family.routing.startswith("sigmoid") else 0
    scale = float_word(anatomy.share_scale)
    yield phase(on.ROUTE, routings[family.routing], bias, chances, choice, scale)
    yield phase(on.SORT)
    yield phase(on.GATHER, int(weights.has_float_experts))
    gate, up, down = (
        weights.experts(f"{name}ffn_{part}_exps.weight") for part in ("gate", "up", "down")
    )
    biases = [weights.vector(f"{name}ffn_{part}_exps.bias") for part in ("gate", "up", "down")]
    hidden = anatomy.expert_hidden
    activation = ACTIVATIONS[family.activation]
    yield phase(on.EXPERTS, gate, up, hidden, tile_outputs, activation, *biases[:2])
    yield phase(on.EXPERTS_DOWN, down, kept.out, hidden)
    gated = weights.vector(f"{name}ffn_gate_inp_shexp.weight")
    yield phase(on.COMBINE, 0, kept.out, 0, biases[2], places.added, shared, gated)


def block_bytes(anatomy: Anatomy) -> int:
    """Bytes for the keys of 32 tokens in one layer; the values take as many."""
    return anatomy.key_heads * anatomy.head_size * 32 * 2


def float_word(value: float) -> int:
    """A word whose first four bytes are the float."""
    word: int = struct.unpack("<q", struct.pack("<fI", value, 0))[0]
    return word
