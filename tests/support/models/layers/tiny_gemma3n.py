"""Tensors that only files of Gemma 3n have: of four residuals side by side, and of the product beside attention."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tests.support.models.tiny_gguf import Weights

Array = NDArray[np.float32]

STREAMS, RANK = 4, 64  # llama.cpp knows no others


def of_all_layers(width: int, weights: Weights) -> Iterator[tuple[str, Array]]:
    for name in ("altup_proj", "altup_unembd_proj"):
        flat = weights.matrix((STREAMS - 1) * width, width)
        yield f"{name}.weight", flat.reshape(STREAMS - 1, width, width)


def of_streams(width: int, weights: Weights) -> Iterator[tuple[str, Array]]:
    """Routers divide by the width, so theirs are large."""
    yield "altup_correct_coef.weight", weights.matrix(STREAMS, STREAMS, 0.4)
    yield "altup_correct_scale.weight", weights.vector(1.0, width)
    yield "altup_predict_coef.weight", weights.matrix(STREAMS * STREAMS, STREAMS, 0.2)
    yield "altup_router.weight", weights.matrix(STREAMS, width, float(width))
    yield "altup_router_norm.weight", weights.vector(1.0, width)
    yield "laurel_l.weight", weights.matrix(RANK, width)
    yield "laurel_r.weight", weights.matrix(width, RANK)
    yield "laurel_post_norm.weight", weights.vector(1.0, width)


def is_left_as_halves(name: str) -> bool:
    """Tensors that llama.cpp does not quantise, whatever is asked for."""
    return "altup_" in name or "laurel_" in name
