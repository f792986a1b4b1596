"""A tiny GGUF whose matrices are of given types, the same file on every machine and with every numpy.

Types that the gguf package cannot write are blocks of random bits, with scales that keep the size of what passes.
"""

from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from segue.bench.harness.random_weights import NUMBERS, is_made_of_bits, num_bytes, scaled
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
    if not is_made_of_bits(kind):
        return gguf.quantize(values, gguf.GGMLQuantizationType[kind])
    bits = weights.matrix(*num_bytes(kind, rows, columns)).view(np.uint32) >> np.uint32(8)
    return scaled(kind, bits.astype(np.uint8), columns, gain).reshape(rows, -1)
