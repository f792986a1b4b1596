"""What text models of those that see have for pictures."""

from collections.abc import Callable, Iterator

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.support.models.tiny_gguf import END, Weights, add_vocabulary, pieces


def of_pictures(
    width: int, hidden: int, weights: Weights
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Matrices that a layer of CogVLM has for them alone."""
    shapes = {"attn_qkv": (3 * width, width), "attn_output": (width, width)}
    shapes |= {"gate": (hidden, width), "up": (hidden, width), "down": (width, hidden)}
    for name, shape in shapes.items():
        yield f"vis_{name}.weight", weights.matrix(*shape)


def with_tokens(count: int) -> Callable[[gguf.GGUFWriter], tuple[int, int]]:
    """The usual vocabulary, and as many tokens more."""

    def vocabulary(writer: gguf.GGUFWriter) -> tuple[int, int]:
        writer.add_tokenizer_model("gpt2")
        add_vocabulary(writer, [END, *(f"<{i}>" for i in range(count))], False)
        return len(pieces()) + 1 + count, 0

    return vocabulary
