"""Tensors that only files of Gemma 4 have: embeddings of layers, and what goes with a feed-forward beside experts."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tests.support.models.tiny_gguf import Weights

Array = NDArray[np.float32]


def embeddings_of_layers(
    size: int, layers: int, width: int, vocab: int, weights: Weights
) -> Iterator[tuple[str, Array]]:
    """Embeddings of `size` columns for each layer; none if the size is 0."""
    if size:
        yield "per_layer_token_embd.weight", weights.matrix(vocab, size * layers, 4.0)
        yield "per_layer_model_proj.weight", weights.matrix(size * layers, width, 2.0)
        yield "per_layer_proj_norm.weight", weights.vector(1.0, size)


def of_embeddings(size: int, width: int, weights: Weights) -> Iterator[tuple[str, Array]]:
    """What a layer does with its embeddings."""
    if size:
        yield "inp_gate.weight", weights.matrix(size, width, 1.5)
        yield "proj.weight", weights.matrix(width, size, 2.0)
        yield "post_norm.weight", weights.vector(1.0, width)


def beside_experts(count: int, width: int, weights: Weights) -> Iterator[tuple[str, Array]]:
    """Scales of the router's input and of each expert; norms of the two ways through a layer."""
    yield "ffn_gate_inp.scale", weights.vector(4.0, width)
    yield "ffn_down_exps.scale", weights.vector(1.5, count)
    for name in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"):
        yield f"{name}.weight", weights.vector(1.0, width)
