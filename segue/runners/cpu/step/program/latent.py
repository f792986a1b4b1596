"""Latent attention, from the product for queries and the key to the one after it."""

from collections.abc import Iterator

from segue.runners.cpu.architectures.parts.latent import Latent
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.attention.scratch import BITS_PER_NAT
from segue.runners.cpu.step.program.places import Places
from segue.runners.cpu.step.program.words import Row, float_word, product
from segue.runners.cpu.weights import Weights


def latent_attention(
    weights: Weights, places: Places, number: int, latent: Latent
) -> Iterator[Row]:
    hparams, layer, name = weights.hparams, weights.hparams.by_layer[number], f"blk.{number}."
    # A row has what queries are made of, if that is not the residual, the key, and the queries.
    asked, row, heads = latent.query_rank, layer.outputs, layer.heads
    first, start = ("attn_q_a", 0) if asked else ("attn_q", latent.size)
    matrices = [(weights.matrix(f"{name}{first}.weight"), 4 * start)]
    matrices += [(weights.matrix(f"{name}attn_kv_a_mqa.weight"), 4 * asked)]
    gate = latent.outputs(heads)
    if layer.gate:
        matrices += [(weights.matrix(f"{name}attn_gate.weight"), 4 * gate)]
    yield product(places.projected, row, on.INPUT_FLOATS, matrices)
    words = _words(weights, places, number, latent)
    yield [on.LATENT_KEYS, *words]
    if asked:
        queries = places.projected + 4 * (asked + latent.size)
        matrix = weights.matrix(f"{name}attn_q_b.weight")
        yield product(queries, row, on.HIDDEN_FLOATS, [(matrix, 0)])
    yield [on.LATENT_QUERIES, *words]
    keys = weights.each(f"{name}attn_k_b.weight", heads)
    yield [on.LATENT_PRODUCTS, keys, heads, on.QUERIES, layer.shared, latent.size]
    yield [on.LATENT_ATTEND, *words]
    values = weights.each(f"{name}attn_v_b.weight", heads)
    yield [on.LATENT_PRODUCTS, values, heads, on.HEADS_FLOATS, heads, latent.values]
    words = [places.projected + 4 * gate, 4 * row, latent.values, 4, on.ONE_SIGMOID]  # see rows.py
    yield [on.QUANTISE, layer.taken, *(words if layer.gate else ())]
    output = weights.matrix(f"{name}attn_output.weight")
    yield product(places.attended, hparams.width, on.HEADS_FLOATS, [(output, 0)])


def _words(weights: Weights, places: Places, number: int, latent: Latent) -> Row:
    """The words of latent.py, in its order."""
    hparams, layer, name = weights.hparams, weights.hparams.by_layer[number], f"blk.{number}."
    return [
        places.kv[number][0],
        places.block_bytes,
        places.projected,
        4 * layer.outputs,
        4 * latent.query_rank,
        4 * (latent.query_rank + latent.size),
        latent.rank,
        latent.turned,
        latent.plain,
        latent.query_rank,
        layer.heads,
        layer.shared,
        int(hparams.turns == "neighbours"),
        *(places.turns[:2] if layer.pairs else (0, 0)),
        float_word(hparams.query_scale * BITS_PER_NAT),
        places.turns[4] if hparams.temperature else 0,
        weights.vector(f"{name}attn_q_a_norm.weight"),
        weights.vector(f"{name}attn_kv_a_norm.weight"),
        float_word(hparams.epsilon),
    ]
