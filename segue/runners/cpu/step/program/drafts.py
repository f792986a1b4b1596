"""The MTP layer: what a step leaves for it, and the program that drafts by it (step/rare/drafts.py).

A step gives it what the model made of each row, and stores its keys and values; so what a slot holds is whole after
each step, and forks, trims and cached prefixes are right as they are. Drafts are made by a program of its own, one row
for each slot, whose keys the next step overwrites.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from segue.runners.cpu.architectures.parts.drafts import EMBEDDING, HEAD, LAST_NORMS, NORMS, PAIRED
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.program.attention import stored
from segue.runners.cpu.step.program.latent import latent_attention
from segue.runners.cpu.step.program.norms import Summand, norm
from segue.runners.cpu.step.program.places import Places
from segue.runners.cpu.step.program.words import NORMS as KINDS
from segue.runners.cpu.step.program.words import Row, float_word, product
from segue.runners.cpu.weights import Weights


def handed_on(
    weights: Weights, places: Places, summands: Sequence[Summand], scale: int
) -> Iterator[Row]:
    """At the end of a step's layers: make the layer's input, and keep what was made of rows for later steps.

    `summands`, `scale`: of the norm before the head, which has none left then.
    """
    last = "output_norm" if weights.hparams.family.drafts_by == "norm" else ""
    yield norm(weights, "", last, on.FROM_SUM, summands, sum_scale=scale)
    yield pair(weights, places)
    yield hand_on(places)


def keys(weights: Weights, places: Places) -> Iterator[Row]:
    """At the end of a step, whose residual nobody reads any more: store the layer's keys and values."""
    layer = weights.hparams.layers
    latent = weights.hparams.by_layer[layer].latent
    yield from paired(weights, places)
    if latent is not None:  # its first two phases: a product, and the keys
        yield from islice(latent_attention(weights, places, layer, latent), 2)
    else:
        yield from stored(weights, places, layer)


def pair(weights: Weights, places: Places) -> Row:
    """The words of rare/drafts.py, in its order."""
    hparams, name = weights.hparams, weights.hparams.name_of(weights.hparams.layers)
    own = f"{name}{EMBEDDING}"
    embedding = weights.matrix(own if weights.has(own) else "token_embd.weight")
    words = [embedding, float_word(hparams.embedding_scale)]
    words += [weights.vector(f"{name}{each}.weight") for each in NORMS]
    words += [KINDS[hparams.norm], float_word(hparams.epsilon)]
    return [on.PAIR, places.rare[on.PAIR], *words]


def hand_on(places: Places) -> Row:
    return [on.HAND_ON, places.rare[on.HAND_ON]]


def paired(weights: Weights, places: Places) -> Iterator[Row]:
    """From the pairs to what attention takes: the residual is what a product makes of them."""
    hparams = weights.hparams
    name, matrix = hparams.name_of(hparams.layers), weights.matrix
    yield product(
        places.residual, hparams.width, on.HIDDEN_FLOATS, [(matrix(f"{name}{PAIRED}"), 0)]
    )
    yield norm(weights, name, hparams.family.norms[0], on.FROM_SUM, [])


def last_norm(weights: Weights, summands: Sequence[Summand]) -> Iterator[Row]:
    """From the layer's output to what the head takes; what the next draft takes is what the first of these gives."""
    name = weights.hparams.name_of(weights.hparams.layers)
    found = [(name, each) for each in LAST_NORMS if weights.has(f"{name}{each}.weight")]
    own = (*found, ("", "output_norm"))[0]
    if weights.hparams.family.drafts_by == "norm":
        yield norm(weights, *own, on.FROM_SUM, summands)
    else:
        yield norm(weights, "", "", on.FROM_SUM, summands)
        yield norm(weights, *own, on.FROM_SUM, [])


def draft_head(weights: Weights) -> int:
    own = f"{weights.hparams.name_of(weights.hparams.layers)}{HEAD}"
    return weights.matrix(own) if weights.has(own) else weights.head
