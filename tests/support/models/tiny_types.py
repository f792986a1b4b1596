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

from segue.models.gguf.types import TENSOR_TYPES
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
    is_quartered: bool = (
        False  # the scale is in the high halves of four bytes, each followed by another
    )
    has_signs: bool = False  # half of the scales are negative, or the mean would not be about 0


RANDOM = {
    "IQ4_NL": Blocks(0, 70.0),
    "IQ4_XS": Blocks(0, 1300.0),
    "Q2_K": Blocks(80, 12.0, 82, 1.5),
    "Q3_K": Blocks(108, 42.0),
    "Q4_K": Blocks(0, 250.0, 2, 7.5),
    "Q5_K": Blocks(0, 500.0, 2, 15.5),
    "Q6_K": Blocks(208, 1370.0),
    "IQ1_S": Blocks(0, 7.2),
    "IQ1_M": Blocks(49, 7.2, is_quartered=True),
    "IQ2_XXS": Blocks(0, 53.0),
    "IQ2_XS": Blocks(0, 56.0),
    "IQ2_S": Blocks(0, 56.0),
    "IQ3_XXS": Blocks(0, 143.0),
    "IQ3_S": Blocks(0, 141.0),
    "Q1_0": Blocks(0, 1.0),
    "Q2_0": Blocks(0, 1.2, has_signs=True),
}
NUMBERS = {kind.name: number for number, kind in TENSOR_TYPES.items()}
FLOATS = 2.9  # spread of NVFP4's numbers, whose scales are floats of 8 bits


def write_types(
    path: Path | str, kinds: Sequence[str], experts: int = 0, is_scaled: bool = False
) -> Path:
    """A llama with the types in turn, one matrix after the other. `experts`: two of so many are used.

    `is_scaled`: whole matrices have scales, as converted files of NVFP4 do.
    """
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    add_vocabulary(writer, [END], False)
    for name, value in SETTINGS.items():
        writer.add_uint32(f"llama.{name}", value)
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    weights, turns = Weights(1), cycle(kinds)
    for name, rows, columns, gain in _matrices():
        kind, count = next(turns), experts if ".ffn_" in name else 0
        made = _tensor(weights, kind, max(1, count) * rows, columns, gain)
        shape = (count, rows, columns) if count else (rows, columns)
        # As int8, of which the gguf package takes what it is told: it does not know all types.
        full = f"{name}{'_exps' * bool(count)}.weight"
        writer.add_tensor(full, made.view(np.int8), shape, NUMBERS[kind])  # type: ignore[arg-type]
        if is_scaled and name != "token_embd":
            stem = f"{name}{'_exps' * bool(count)}"
            writer.add_tensor(f"{stem}.scale", weights.vector(1.2, max(1, count)))
            writer.add_tensor(f"{stem}.input_scale", weights.vector(9.0, max(1, count)))
    for layer in range(LAYERS if experts else 0):
        writer.add_tensor(f"blk.{layer}.ffn_gate_inp.weight", weights.matrix(experts, WIDTH, 1.0))
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
    if kind not in (*RANDOM, "NVFP4"):
        return gguf.quantize(values, gguf.GGMLQuantizationType[kind])
    _, size, num_bytes = TENSOR_TYPES[NUMBERS[kind]]
    bits = weights.matrix(rows * columns // size, num_bytes).view(np.uint32) >> np.uint32(8)
    blocks = bits.astype(np.uint8)
    if kind == "NVFP4":
        exponent = math.floor(math.log2(gain / math.sqrt(columns) / FLOATS)) + 7
        blocks[:, :4] = blocks[:, :4] & 7 | exponent << 3
        return blocks.reshape(rows, -1)
    form = RANDOM[kind]
    scales = gain / math.sqrt(columns) / form.spread * (0.75 + blocks[:, :1] / 512)
    if form.has_signs:
        scales = np.where(blocks[:, :1] & 1, scales, -scales)
    if form.is_quartered:
        _put_quarters(blocks, form.scale_at, scales)
    else:
        _put(blocks, form.scale_at, scales)
    if form.min_at is not None:
        _put(blocks, form.min_at, scales * form.minimum)
    return blocks.reshape(rows, -1)


def _put(blocks: NDArray[np.uint8], place: int, numbers: NDArray[np.float64]) -> None:
    blocks[:, place : place + 2] = numbers.astype(np.float16).view(np.uint8)


def _put_quarters(blocks: NDArray[np.uint8], place: int, numbers: NDArray[np.float64]) -> None:
    bits = numbers[:, 0].astype(np.float16).view(np.uint16)
    for i in range(4):
        quarter = (bits >> np.uint16(4 * i) & np.uint16(15)).astype(np.uint8)
        blocks[:, place + 2 * i] = blocks[:, place + 2 * i] & 15 | quarter << 4
