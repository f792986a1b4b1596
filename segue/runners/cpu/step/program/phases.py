"""All phases of a step, layer by layer."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from segue.runners.cpu.architectures.tensors import EXPERTS_NORM, LAYER_SCALE
from segue.runners.cpu.memory import zeros
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.program.attention import attention
from segue.runners.cpu.step.program.drafts import (
    draft_head,
    hand_on,
    handed_on,
    keys,
    last_norm,
    pair,
    paired,
)
from segue.runners.cpu.step.program.feed_forward import (
    experts,
    feed_forward,
    scores_of_experts,
)
from segue.runners.cpu.step.program.latent import latent_attention
from segue.runners.cpu.step.program.layer_embeddings import layer_gate, layer_inputs
from segue.runners.cpu.step.program.norms import Summand, norm, sub_norm, summand
from segue.runners.cpu.step.program.passes import embeddings_again, passage
from segue.runners.cpu.step.program.places import Places
from segue.runners.cpu.step.program.recurrent import recurrent
from segue.runners.cpu.step.program.rwkv import channel_mix
from segue.runners.cpu.step.program.streams import streams
from segue.runners.cpu.step.program.words import Row, float_word, product
from segue.runners.cpu.weights import Weights

Before = Callable[[int, int, Sequence[int]], Row | None]
"""The phase before products: of the board's indices of their input and its rows, and their matrices, or 0."""


def nothing_before(source: int, rows: int, matrices: Sequence[int]) -> Row | None:
    return None


def program(
    weights: Weights, places: Places, tile_outputs: int, before: Before = nothing_before
) -> NDArray[np.int64]:
    """All phases of a step."""
    return _made(_phases(weights, places, tile_outputs), before)


def draft_program(weights: Weights, places: Places, tile_outputs: int) -> NDArray[np.int64]:
    """All phases of a draft by the MTP layer: every row wants logits."""
    return _made(_draft_phases(weights, places, tile_outputs), nothing_before)


def _made(phases: Iterator[Row], before: Before) -> NDArray[np.int64]:
    rows: list[Row] = []
    for row in phases:
        rows += [*_before(row, before), row]
    made: NDArray[np.int64] = zeros((len(rows), on.INSTRUCTION_WORDS), np.int64)
    for i, row in enumerate(rows):
        made[i, : len(row)] = row
    return made


def _before(row: Row, before: Before) -> Iterator[Row]:
    """The phases before one: of each input that its products take. The matrices of others are 0 there."""
    if row[0] == on.PRODUCT:
        rows, own, sources = row[1], row[5::3], row[7::3]
    elif row[0] == on.GATED:
        rows, own, sources = on.ROWS, row[1:3], [row[9]] * 2
    else:
        return
    for source in dict.fromkeys(sources):
        taken = [matrix if its == source else 0 for matrix, its in zip(own, sources, strict=True)]
        if first := before(source, rows, taken):
            yield first


def _phases(weights: Weights, places: Places, tile_outputs: int) -> Iterator[Row]:
    layers = streams if weights.hparams.family.has_streams else _layers
    yield from layers(weights, places, tile_outputs)
    yield from _logits(weights, places, weights.head)
    if weights.hparams.drafts:
        yield from keys(weights, places)


def _draft_phases(weights: Weights, places: Places, tile_outputs: int) -> Iterator[Row]:
    hparams, layer = weights.hparams, weights.hparams.layers
    yield pair(weights, places)
    yield from paired(weights, places)
    yield from _mixed(weights, places, layer)
    mixed, added = _summands(weights, places, layer), _added(weights, places, layer)
    if not hparams.is_parallel:
        yield norm(weights, hparams.name_of(layer), hparams.family.norms[1], on.FROM_SUM, mixed)
    yield from _fed(weights, places, layer, tile_outputs)
    first, *others = last_norm(weights, [*mixed, added] if hparams.is_parallel else [added])
    yield from (first, hand_on(places), *others)
    yield from _logits(weights, places, draft_head(weights))


def _layers(weights: Weights, places: Places, tile_outputs: int) -> Iterator[Row]:
    """From embeddings to the input of the head."""
    hparams = weights.hparams
    summands: list[Summand] = []
    source, scale = on.FROM_EMBEDDING, 0
    if hparams.layer_columns:
        yield norm(weights, "", "", source, [], passage=passage(weights, places, source, 0))
        yield from layer_inputs(weights, places)
        source = on.FROM_SUM
    for layer in range(hparams.layers):
        name = hparams.name_of(layer)
        before_attention, before_feed_forward = hparams.family.norms
        passed = passage(weights, places, source, layer)
        if hparams.family.routes_early and hparams.has_experts(layer):
            yield norm(weights, "", "", source, summands, sum_scale=scale, passage=passed)
            yield scores_of_experts(weights, places, layer)
            source, summands, scale, passed = on.FROM_SUM, [], 0, []
        if hparams.family.layers_are != "whole":
            for before, phases, given in _parts(weights, places, layer, tile_outputs):
                yield norm(weights, name, before, source, summands, passage=passed)
                yield from phases
                summands, source, passed = given, on.FROM_SUM, []
            continue
        yield norm(
            weights, name, before_attention, source, summands, sum_scale=scale, passage=passed
        )
        yield from _mixed(weights, places, layer)
        mixed, added = _summands(weights, places, layer), _added(weights, places, layer)
        if not hparams.is_parallel:
            yield norm(weights, name, before_feed_forward, on.FROM_SUM, mixed)
        elif not hparams.shares_norm:
            yield norm(weights, name, before_feed_forward, on.FROM_SUM, [])
        yield from _fed(weights, places, layer, tile_outputs)
        summands = [*mixed, added] if hparams.is_parallel else [added]
        summands += embeddings_again(weights, places, layer)
        if hparams.layer_columns:
            yield norm(weights, name, "", on.FROM_SUM, summands)
            yield from layer_gate(weights, places, layer)
            summands = [Summand(places.attended, 0, weights.vector(f"{name}post_norm.weight"))]
        source, scale = on.FROM_SUM, 0
        if hparams.family.has_layer_scales:
            scale = weights.vector(f"{name}{LAYER_SCALE}")
        if hparams.halved_every and (layer + 1) % hparams.halved_every == 0:
            scale = weights.number(0.5)
    if hparams.drafts:
        yield from handed_on(weights, places, summands, scale)
        summands, scale = [], 0
    yield norm(weights, "", "output_norm", on.FROM_WANTED, summands, sum_scale=scale)


def _logits(weights: Weights, places: Places, head: int) -> Iterator[Row]:
    hparams = weights.hparams
    logits = [places.logits, places.logits_row]
    yield product(logits[0], logits[1], on.INPUT_FLOATS, [(head, 0)], on.WANTED)
    bias = weights.vector("output.bias") or weights.unsaid()
    if bias or hparams.logit_scale or hparams.logit_cap:
        scales = float_word(hparams.logit_scale), float_word(hparams.logit_cap)
        yield [on.LOGITS, *logits, bias, *scales]


def _parts(
    weights: Weights, places: Places, layer: int, tile_outputs: int
) -> Iterator[tuple[str, Iterator[Row], list[Summand]]]:
    """Of a layer that may lack a part: the norm before each part that it has, its phases, and what it gives."""
    family, own = weights.hparams.family, weights.hparams.by_layer[layer]
    if family.layers_are == "experts first":
        yield from _experts_first(weights, places, layer, tile_outputs)
        return
    if own.mixes:
        given = _summands(weights, places, layer)
        yield family.norms[0], _mixed(weights, places, layer), given
    if own.hidden and family.layers_are != "a mixer":
        fed = _fed(weights, places, layer, tile_outputs)
        yield family.norms[1] or family.norms[0], fed, [_added(weights, places, layer)]


def _experts_first(
    weights: Weights, places: Places, layer: int, tile_outputs: int
) -> Iterator[tuple[str, Iterator[Row], list[Summand]]]:
    """The same of a layer whose experts take the residual as it was before attention, whose output waits for them."""
    name, norms = f"blk.{layer}.", weights.hparams.family.norms
    hidden, place = weights.hparams.by_layer[layer].hidden, places.attended
    yield norms[0], _mixed(weights, places, layer), []
    chosen = experts(weights, places, layer, tile_outputs)
    yield EXPERTS_NORM, chosen, _summands(weights, places, layer)
    fed = feed_forward(weights, name, tile_outputs, "", hidden, place)  # which was added
    yield norms[1], fed, [_added(weights, places, layer), Summand(place, 0, 0)]


def _mixed(weights: Weights, places: Places, layer: int) -> Iterator[Row]:
    """Attention, and what a layer has instead or beside it."""
    own = weights.hparams.by_layer[layer]
    if own.latent is not None:
        yield from latent_attention(weights, places, layer, own.latent)
    elif own.attends:
        yield from attention(weights, places, layer)
    elif own.is_linear:
        matrix = weights.matrix(f"blk.{layer}.attn_output.weight")
        yield product(places.attended, weights.hparams.width, on.INPUT_FLOATS, [(matrix, 0)])
    if own.recurrence is not None:
        # What the feed-forward gave was added to the residual already.
        out = places.added if own.attends else places.attended
        yield from recurrent(weights, places, layer, own.recurrence, out)


def _summands(weights: Weights, places: Places, layer: int) -> list[Summand]:
    """What they give to the residual."""
    own = weights.hparams.by_layer[layer]
    found = [places.attended] if own.mixes else []
    found += [places.added] if own.attends and own.recurrence else []
    name, scale = weights.hparams.name_of(layer), weights.hparams.attended_scale
    return [summand(weights, name, "attn_output", place, 0, scale=scale) for place in found]


def _added(weights: Weights, places: Places, layer: int) -> Summand:
    """What the feed-forward gives to the residual."""
    name, scale = weights.hparams.name_of(layer), weights.hparams.fed_scale(layer)
    return summand(weights, name, "ffn_down", places.added, 1, scale=scale)


def _fed(weights: Weights, places: Places, layer: int, tile_outputs: int) -> Iterator[Row]:
    """The feed-forward, or a mixture of experts."""
    hparams, name = weights.hparams, weights.hparams.name_of(layer)
    if hparams.has_experts(layer):
        yield from experts(weights, places, layer, tile_outputs)
        return
    hidden, limit = hparams.by_layer[layer].hidden, hparams.by_layer[layer].limit
    if hparams.family.is_feed_forward_shifted:
        yield from channel_mix(weights, places, layer, tile_outputs)
        return
    shape = weights.xielu(layer) if hparams.family.activation == "xielu" else 0
    last = None
    if own := hparams.family.sub_norms[1]:
        last = sub_norm(weights, f"{name}{own}", places.hidden, hidden, on.HIDDEN_FLOATS)
    yield from feed_forward(
        weights,
        name,
        tile_outputs,
        "",
        hidden,
        places.added,
        shape=shape,
        limit=limit,
        before_last=last,
    )
