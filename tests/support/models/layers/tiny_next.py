"""What an MTP layer has besides what others have, for tiny_writer.py."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tests.support.models.tiny_gguf import Weights


def pairing(
    extras: Sequence[str], vocab: int, width: int, weights: Weights
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """`extras`: of a norm, a head and embeddings of its own those that it has."""
    yield "nextn.eh_proj.weight", weights.matrix(width, 2 * width)
    for norm in ("enorm", "hnorm"):
        yield f"nextn.{norm}.weight", weights.vector(1.0, width)
    for name in extras:
        is_norm = name.endswith("norm")
        own = weights.vector(1.0, width) if is_norm else weights.matrix(vocab, width, 2.5)
        yield f"{name}.weight", own
