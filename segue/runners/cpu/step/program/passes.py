"""What is done to the residual itself before some layers: embeddings are normed or kept, and passes over layers end."""

from segue.runners.cpu.architectures.tensors import FIRST_LOW, LAYER_SCALE
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.program.norms import Summand
from segue.runners.cpu.step.program.places import Places
from segue.runners.cpu.step.program.words import Row
from segue.runners.cpu.weights import Weights


def passage(weights: Weights, places: Places, source: int, layer: int) -> Row:
    """The last words of a norm's instruction, in the order of rows.py, for the first norm of a layer."""
    hparams, ended = weights.hparams, weights.hparams.by_layer[layer].ended
    if source == on.FROM_EMBEDDING:
        return _embedded(weights, places)
    if ended == "loop":
        return [weights.vector("output_norm.weight"), 0]
    if ended:  # a stack: what it gives is kept, and added to what the other one gave
        kept, other = (places.high, places.low) if ended == "high" else (places.low, places.high)
        return [weights.ones(hparams.width), 0, kept, other, 4 * hparams.width]
    return []


def _embedded(weights: Weights, places: Places) -> Row:
    family, norm = weights.hparams.family, [0, 0]
    if family.has_embedding_norm:
        norm = [weights.vector(f"token_embd_norm.{end}") for end in ("weight", "bias")]
        if family.is_embedding_norm_plain or not family.has_norm_weights:
            norm = [weights.ones(weights.hparams.width), 0]
    if family.adds_embeddings:
        return [*norm, places.high]
    if family.passes == "stacks":
        return [*norm, places.high, weights.vector(FIRST_LOW), 0]
    return norm


def embeddings_again(weights: Weights, places: Places, layer: int) -> list[Summand]:
    """Those that a layer adds at its end."""
    if not weights.hparams.family.adds_embeddings:
        return []
    scale = weights.value(f"{weights.hparams.name_of(layer)}{LAYER_SCALE}")
    return [Summand(places.high, 0, 0, scale)] if scale else []
