"""A tiny GGUF whose matrices are of given types, the same file on every machine and with every numpy.

Types that the gguf package cannot write are blocks of random bits, with scales that keep the size of what passes.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.support.models.tiny_gguf import END, Weights, add_vocabulary, pieces

WIDTH, HEADS, KEY_HEADS, LAYERS = 256, 4, 2, 2  # blocks of K types have 256 columns
HALF = WIDTH * KEY_HEADS // HEADS
SHAPES = {
    "attn_q": (WIDTH, WIDTH),
    "attn_k": (HALF, WIDTH),
    "attn_v": (HALF, WIDTH),
    "attn_output": (WIDTH, WIDTH),
    "ffn_gate": (2 * WIDTH, WIDTH),
    "ffn_up": (2 * WIDTH, WIDTH),
    "ffn_down": (WIDTH, 2 * WIDTH),
}
SETTINGS = {
    "context_length": 512,
    "embedding_length": WIDTH,
    "block_count": LAYERS,
    "feed_forward_length": 2 * WIDTH,
    "attention.head_count": HEADS,
    "attention.head_count_kv": KEY_HEADS,
}


@dataclass(frozen=True)
class Blocks:
    """Where a block of random bits has its f16 scale and minimum, and how large its weights are without the scale."""

    scale_at: int
    spread: float  # standard deviation
    min_at: int | None = None
    minimum: float = 0.0  # in scales: what makes the mean about 0


RANDOM = {
    "IQ4_NL": Blocks(0, 70.0),
    "IQ4_XS": Blocks(0, 1300.0),
    "Q2_K": Blocks(80, 12.0, 82, 1.5),
    "Q3_K": Blocks(108, 42.0),
    "Q4_K": Blocks(0, 250.0, 2, 7.5),
    "Q5_K": Blocks(0, 500.0, 2, 15.5),
    "Q6_K": Blocks(208, 1370.0),
}


def write_types(path: Path | str, kinds: Sequence[str]) -> Path:
    """A llama with the types in turn, one matrix after the other."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    add_vocabulary(writer, [END], False)
    for name, value in SETTINGS.items():
        writer.add_uint32(f"llama.{name}", value)
    writer.add_layer_norm_rms_eps(1e-5)
    weights, turns = Weights(1), cycle(kinds)
    for name, rows, columns, gain in _matrices():
        kind = next(turns)
        writer.add_tensor(
            f"{name}.weight",
            _tensor(weights, kind, rows, columns, gain),
            raw_dtype=gguf.GGMLQuantizationType[kind],
        )
    norms = [f"blk.{layer}.{name}" for layer in range(LAYERS) for name in ("attn_norm", "ffn_norm")]
    for name in (*norms, "output_norm"):
        writer.add_tensor(f"{name}.weight", weights.vector(1.0, WIDTH))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(path)


def _matrices() -> Iterator[tuple[str, int, int, float]]:
    vocab = len(pieces()) + 1
    yield "token_embd", vocab, WIDTH, 16.0
    yield "output", vocab, WIDTH, 2.5
    for layer in range(LAYERS):
        for name, (rows, columns) in SHAPES.items():
            yield f"blk.{layer}.{name}", rows, columns, 1.0


def _tensor(weights: Weights, kind: str, rows: int, columns: int, gain: float) -> NDArray[np.uint8]:
    values = weights.matrix(rows, columns, gain)
    if kind not in RANDOM:
        return gguf.quantize(values, gguf.GGMLQuantizationType[kind])
    form = RANDOM[kind]
    size, num_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    bits = weights.matrix(rows * columns // size, num_bytes).view(np.uint32) >> np.uint32(8)
    blocks = bits.astype(np.uint8)
    scales = gain / math.sqrt(columns) / form.spread * (0.75 + blocks[:, :1] / 512)
    _put(blocks, form.scale_at, scales)
    if form.min_at is not None:
        _put(blocks, form.min_at, scales * form.minimum)
    return blocks.reshape(rows, -1)


def _put(blocks: NDArray[np.uint8], place: int, numbers: NDArray[np.float64]) -> None:
    blocks[:, place : place + 2] = numbers.astype(np.float16).view(np.uint8)
