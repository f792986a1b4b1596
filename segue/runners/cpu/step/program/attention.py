"""Attention, from the product for queries to the one after it."""

from collections.abc import Iterator, Sequence

from segue.runners.cpu.architectures.hparams import Hparams
from segue.runners.cpu.architectures.layers import Layer
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.attention.kv_formats import head_bytes
from segue.runners.cpu.step.attention.scratch import BITS_PER_NAT
from segue.runners.cpu.step.heads import SHARED
from segue.runners.cpu.step.program.norms import sub_norm
from segue.runners.cpu.step.program.places import Places
from segue.runners.cpu.step.program.words import NORMS, Row, float_word, product, products
from segue.runners.cpu.weights import Weights

_OWN = ("own", "own or none")  # norms of heads: each has weights of its own


def attention(weights: Weights, places: Places, number: int) -> Iterator[Row]:
    hparams, layer = weights.hparams, weights.hparams.by_layer[number]
    name = hparams.name_of(number)
    yield _projection(weights, places, layer, name)
    if layer.laurel:
        start = places.projected + 4 * (layer.outputs - layer.laurel)
        yield [on.NARROW, start, 4 * layer.outputs, layer.laurel, on.HIDDEN_FLOATS]
    bias = weights.vector(f"{name}attn_qkv.bias") if _is_bias_first(hparams) else 0
    if hparams.clamp or bias:
        row = [places.projected, 4 * layer.outputs, layer.projected]
        yield [on.CLAMP, *row, float_word(hparams.clamp), bias]
    if hparams.norms_all_heads:
        row = [places.projected, 4 * layer.outputs]
        row += [NORMS[hparams.norm], float_word(hparams.epsilon)]
        for part, start, count in (("q", 0, layer.queries), ("k", layer.queries, layer.keys)):
            row += [4 * start, count]
            row += [weights.vector(f"{name}attn_{part}_norm.{end}") for end in ("weight", "bias")]
        yield [on.WHOLE_NORMS, *row]
    heads = _heads(weights, places, number)
    yield [on.HEADS, *heads]
    yield [on.ATTEND, *heads]
    if layer.gate:
        yield [on.QUANTISE, layer.taken, *_gate(weights, places, layer)]
    elif hparams.family.sub_norms[0]:
        own = f"{name}{hparams.family.sub_norms[0]}"
        yield sub_norm(weights, own, places.heads, layer.taken, on.HEADS_FLOATS)
    elif layer.shared * layer.mixed % 32:
        yield [on.QUANTISE, layer.taken]
    outputs = [(weights.matrix(f"{name}attn_output.weight"), 0, on.HEADS_FLOATS)]
    if layer.laurel:  # rows of both have the same length
        beside = places.streams.laurel - places.attended
        outputs += [(weights.matrix(f"{name}laurel_r.weight"), beside, on.HIDDEN_FLOATS)]
    yield products(places.attended, hparams.width, outputs)


def stored(weights: Weights, places: Places, number: int) -> Iterator[Row]:
    """Keys and values of a layer that attends in other steps: without queries. Of one whose heads are neither normed
    together nor bounded.
    """
    hparams, layer = weights.hparams, weights.hparams.by_layer[number]
    yield _projection(weights, places, layer, hparams.name_of(number), has_queries=False)
    words = _heads(weights, places, number)
    words[SHARED - 1] = 0
    yield [on.STORE, *words]


def _is_bias_first(hparams: Hparams) -> bool:
    """Whether a bias must be added before all heads are normed together, or before they are bounded."""
    return hparams.norms_all_heads or hparams.clamp > 0


def _gate(weights: Weights, places: Places, layer: Layer) -> Row:
    """The words of quantise_phase in rows.py, in its order."""
    row, size = 4 * layer.outputs, layer.head_size
    if layer.is_gate_joined:
        return [places.projected + 4 * size, row, size, 8 * size]
    gate, is_soft = places.projected + 4 * layer.projected, weights.hparams.family.gates_by_softplus
    if layer.gate == layer.heads:
        return [gate, row, size, 4, on.ONE_SOFTPLUS if is_soft else on.ONE_SIGMOID]
    return [gate, row, layer.queries, 0, on.SOFTPLUSES if is_soft else on.SIGMOIDS]


def _projection(
    weights: Weights, places: Places, layer: Layer, name: str, has_queries: bool = True
) -> Row:
    """The product for queries, keys and values; their outputs are next to each other, and those of a gate and of LAuReL
    after them.
    """
    # Keys that are values too are computed twice: a norm of its own changes each in place.
    parts = ("q", "k", "v" if layer.has_values else "k") if layer.has_keys else ("q",)
    starts = (0, layer.asked, layer.asked + layer.keys)
    if weights.hparams.has_fused_heads:
        parts = ("qkv",)
    own = [*zip(parts, starts, strict=False)]
    if not has_queries:
        own = [part for part in own if part[0] != "q"]
        return product(places.projected, layer.outputs, on.INPUT_FLOATS, _at(weights, name, own))
    own += [("gate", layer.projected)] if layer.gate and not layer.is_gate_joined else []
    matrices = _at(weights, name, own)
    if layer.laurel:
        start = layer.outputs - layer.laurel
        matrices += [(weights.matrix(f"{name}laurel_l.weight"), 4 * start)]
    return product(places.projected, layer.outputs, on.INPUT_FLOATS, matrices)


def _at(weights: Weights, name: str, parts: Sequence[tuple[str, int]]) -> list[tuple[int, int]]:
    return [(weights.matrix(f"{name}attn_{part}.weight"), 4 * start) for part, start in parts]


def _heads(weights: Weights, places: Places, number: int) -> Row:
    """The words of heads.py, in its order."""
    hparams, layer = weights.hparams, weights.hparams.by_layer[number]
    name = hparams.name_of(number)
    starts = (0, layer.asked, layer.asked + layer.keys) if layer.has_keys else (0, 0, 0)
    if _is_bias_first(hparams):
        biases = [0, 0, 0]
    elif hparams.has_fused_heads:
        biases = [weights.vector(f"{name}attn_qkv.bias", start) for start in starts]
    else:
        biases = [weights.vector(f"{name}attn_{part}.bias") for part in "qkv"]
    norms, own = [0, 0], [4 * layer.head_size * (hparams.family.head_norms in _OWN)] * 2
    if hparams.family.head_norms in ("each", "each or none", *_OWN):
        norms = [weights.vector(f"{name}attn_{part}_norm.weight") for part in "qk"]
    if hparams.family.head_norms == "gains":
        norms = [weights.vector(f"{name}attn_q_norm.weight"), weights.ones(layer.head_size)]
        own = [4 * layer.head_size, 0]
    has_norm_bias = hparams.family.head_epsilon > 0 and any(
        weights.has(f"{name}attn_{part}_norm.bias") for part in "qk"
    )
    if has_norm_bias:
        norms = [weights.with_bias(f"{name}attn_{part}_norm", layer.head_size) for part in "qk"]
        own = [8 * layer.head_size] * 2
    if hparams.family.head_norms == "unweighted" and hparams.has_head_norms and layer.pairs:
        norms = [weights.ones(layer.head_size)] * 2
    grows = hparams.temperature and not (hparams.family.temperature and layer.pairs)
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
        int(hparams.turns == "neighbours"),
        *(places.turns[2:4] if layer.window else places.turns[:2]),
        float_word(hparams.query_scale * BITS_PER_NAT),
        *biases,
        *norms,
        float_word(hparams.family.head_epsilon or hparams.epsilon),
        NORMS["layer" if hparams.family.head_epsilon else hparams.norm],
        *(own if norms[0] else (0, 0)),
        layer.window,
        float_word(hparams.score_cap * BITS_PER_NAT),
        weights.vector(f"{name}attn_sinks.weight"),
        int(hparams.family.norms_heads_last),
        places.turns[4] if grows else 0,
        weights.ones(layer.head_size) if hparams.family.norms_values else 0,
        (8 if layer.is_gate_joined else 4) * layer.head_size,
        weights.slopes(layer.heads),
        layer.mixed,
        4 * layer.head_size if has_norm_bias else 0,
        head_bytes(places.kv_type, layer.head_size),
    ]
