"""Gemma 3n, from embeddings to the input of the head: see step/rare/streams.py."""

import math
from collections.abc import Iterator

from segue.runners.cpu.architectures.parts.streams import DEVIATIONS, SPARSE_LAYERS, STREAMS
from segue.runners.cpu.architectures.tensors import expert_name
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.program.attention import attention
from segue.runners.cpu.step.program.feed_forward import feed_forward
from segue.runners.cpu.step.program.layer_embeddings import layer_gate, layer_inputs
from segue.runners.cpu.step.program.norms import Summand, norm, summand
from segue.runners.cpu.step.program.places import Places
from segue.runners.cpu.step.program.words import ACTIVATIONS, Row, float_word, product, products
from segue.runners.cpu.weights import Weights


def streams(weights: Weights, places: Places, tile_outputs: int) -> Iterator[Row]:
    hparams = weights.hparams
    yield norm(weights, "", "", on.FROM_EMBEDDING, [])
    yield from layer_inputs(weights, places)
    row = 4 * hparams.width
    others = [(matrix, (i + 1) * row) for i, matrix in enumerate(_each(weights, "altup_proj"))]
    yield product(places.streams.all, STREAMS * hparams.width, on.INPUT_FLOATS, others)
    yield _phase(places, on.SPREAD, places.streams.all)
    added = [0, 0]  # what the layer before gives to all streams but the first, and its norm
    for layer in range(hparams.layers):
        name = f"blk.{layer}."
        yield _routed(weights, places, name, on.PREDICT, added)
        yield from attention(weights, places, layer)
        yield _joined(weights, places, name)
        yield from _fed(weights, places, layer, tile_outputs)
        fed = [places.added, weights.vector(f"{name}post_ffw_norm.weight")]
        yield _routed(weights, places, name, on.CORRECT, fed)
        yield from layer_gate(weights, places, layer)
        added = [places.attended, weights.vector(f"{name}post_norm.weight")]
    yield from _merged(weights, places, added)


def _phase(places: Places, kind: int, *words: int) -> Row:
    """The words of step/rare/streams.py or step/rare/sparsity.py, in its order."""
    return [kind, places.rare[kind], *words]


def _each(weights: Weights, name: str) -> list[int]:
    """The matrices of all streams but the first."""
    return [weights.matrix(expert_name(f"{name}.weight", i)) for i in range(STREAMS - 1)]


def _routed(weights: Weights, places: Places, name: str, kind: int, added: list[int]) -> Row:
    """All streams are predicted before a layer, or corrected after it."""
    coefficients, last = {
        on.PREDICT: ("altup_predict_coef", "attn_norm"),
        on.CORRECT: ("altup_correct_coef", "altup_correct_scale"),
    }[kind]
    vectors = [
        weights.vector(f"{name}{of}.weight")
        for of in ("altup_router_norm", "altup_router", coefficients, last)
    ]
    epsilon = float_word(weights.hparams.epsilon)
    return _phase(places, kind, places.streams.all, *added, epsilon, *vectors)


def _joined(weights: Weights, places: Places, name: str) -> Row:
    """What attention and LAuReL give is added to the residual, of which as much is taken that it keeps its size."""
    laurel = weights.vector(f"{name}laurel_post_norm.weight")
    given = [summand(weights, name, "attn_output", places.attended, 0)]
    given += [Summand(places.streams.laurel, 0, laurel)]
    scale = weights.number(1 / math.sqrt(2))
    return norm(weights, name, "ffn_norm", on.FROM_SUM, given, sum_scale=scale)


def _fed(weights: Weights, places: Places, layer: int, tile_outputs: int) -> Iterator[Row]:
    """The feed-forward. In the first layers gates and ups are whole rows before they are activated."""
    hparams, name = weights.hparams, f"blk.{layer}."
    hidden = hparams.by_layer[layer].hidden
    if layer >= SPARSE_LAYERS:
        yield from feed_forward(weights, name, tile_outputs, "", hidden, places.added)
        return
    both = [
        (weights.matrix(f"{name}ffn_{part}.weight"), 4 * hidden * i)
        for i, part in enumerate(("gate", "up"))
    ]
    yield product(places.streams.both, 2 * hidden, on.INPUT_FLOATS, both)
    activation = ACTIVATIONS[hparams.family.activation]
    words = [places.streams.both, hidden, float_word(DEVIATIONS), activation]
    yield _phase(places, on.SPARSE, *words)
    down = weights.matrix(f"{name}ffn_down.weight")
    yield product(places.added, hparams.width, on.HIDDEN_FLOATS, [(down, 0)])


def _merged(weights: Weights, places: Places, added: list[int]) -> Iterator[Row]:
    """Of rows that want logits. What the products give is where other outputs were, which are not read any more."""
    epsilon = float_word(weights.hparams.epsilon)
    yield _phase(places, on.PART_STREAMS, places.streams.all, *added, epsilon)
    out = (places.attended, places.added, places.streams.laurel)
    sources = (on.INPUT_FLOATS, on.HEADS_FLOATS, on.HIDDEN_FLOATS)
    matrices = _each(weights, "altup_unembd_proj")
    parts = [
        (matrix, place - out[0], source)
        for matrix, place, source in zip(matrices, out, sources, strict=True)
    ]
    yield products(out[0], weights.hparams.width, parts, on.WANTED)
    last = weights.vector("output_norm.weight")
    words = [places.streams.all, 0, 0, epsilon, *out, last]
    yield _phase(places, on.MERGE_STREAMS, *words)
