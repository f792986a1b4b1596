"""How wide rows are, at most, that the layers of a model take and give: what memory for them follows from."""

from collections.abc import Sequence
from typing import NamedTuple

from segue.runners.cpu.architectures.hparams import Hparams
from segue.runners.cpu.architectures.layers import Layer
from segue.runners.cpu.architectures.states.recurrence import RWKV, Recurrence


class Widths(NamedTuple):
    """Numbers of a row; 0 of what a model does not have."""

    model: int
    queries: int
    heads: int  # what the product after attention, or after a recurrence, takes
    hidden: int  # what the last product of a feed-forward takes, and others between two products
    fed: int  # of a plain feed-forward
    latent: int
    projected: int  # queries, keys and values, or what a recurrence takes
    convolved: int
    shifted: int  # of RWKV's products
    ranked: int  # between two products of RWKV
    columns: int  # of a layer's own embeddings
    all_columns: int  # of those of all layers
    streamed: int  # of one of several residuals
    stacked: int  # of a residual that is kept for later layers


def widths_of(hparams: Hparams) -> Widths:
    layers = hparams.by_layer
    attending = [layer for layer in layers if layer.attends]
    recurrences = recurrences_of(layers)
    mixers: list[Layer | Recurrence] = [*attending, *recurrences]
    width, columns, family = hparams.width, hparams.layer_columns, hparams.family
    streamed = width if family.has_streams else 0
    fed = [layer.hidden for i, layer in enumerate(layers) if hparams.is_fed_plainly(i)]
    latents = [(layer.heads, layer.latent) for layer in layers if layer.latent is not None]
    # All streams but the first are inputs too, side by side: see step/rare/streams.py.
    taken = [*(each.taken for each in mixers), streamed]
    between = [
        *fed,
        hparams.shared_hidden,
        hparams.experts_used * hparams.expert_hidden,
        columns,
        *(latent.query_rank for _, latent in latents),
        streamed,
        2 * width * hparams.drafts,
    ]
    ranked = _ranked(recurrences)
    return Widths(
        model=width,
        queries=max((layer.queries for layer in attending), default=0),
        heads=max(taken),
        hidden=max(between),
        fed=max(fed, default=0),
        latent=max((heads * max(each.plain, each.rank) for heads, each in latents), default=0),
        projected=max(each.outputs for each in mixers),
        convolved=max((each.channels for each in recurrences), default=0),
        shifted=width if ranked else 0,
        ranked=ranked,
        columns=columns,
        all_columns=columns * hparams.layers,
        streamed=streamed,
        stacked=width if family.passes == "stacks" or family.adds_embeddings else 0,
    )


def recurrences_of(layers: Sequence[Layer]) -> list[Recurrence]:
    return [layer.recurrence for layer in layers if layer.recurrence is not None]


def _ranked(recurrences: Sequence[Recurrence]) -> int:
    own = [each for each in recurrences if each.mixer in RWKV]
    return max((max(each.rank, *each.ranks) for each in own), default=0)
