"""A tiny GGUF with random weights and a byte-level vocabulary: quick to load, speaks nonsense."""

import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.support.models.quick_writer import Writer

Array = NDArray[np.float32]

LAYERS, DIM, HEADS, KV_HEADS, FFN = 2, 128, 4, 2, 256
HEAD_DIM = DIM // HEADS
SSM_INNER, SSM_STATE, SSM_CONV, SSM_RANK = 256, 16, 4, 8
EPSILON, ROPE_BASE = 1e-5, 10000.0

END = "<|endoftext|>"
# Token text by metadata key, in the spelling of Qwen.
FIM = {
    gguf.Keys.Tokenizer.FIM_PRE_ID: "<|fim_prefix|>",
    gguf.Keys.Tokenizer.FIM_SUF_ID: "<|fim_suffix|>",
    gguf.Keys.Tokenizer.FIM_MID_ID: "<|fim_middle|>",
    gguf.Keys.Tokenizer.FIM_PAD_ID: "<|fim_pad|>",
    gguf.Keys.Tokenizer.FIM_REP_ID: "<|repo_name|>",
    gguf.Keys.Tokenizer.FIM_SEP_ID: "<|file_sep|>",
}
# Pairs of bytes in the order they merge. F0 9F is the first half of most emoji, C3 A9 is "é".
MERGES: tuple[tuple[bytes, bytes], ...] = (
    (b"t", b"h"),
    (b"h", b"e"),
    (b"th", b"e"),
    (b" ", b"the"),
    (b"i", b"n"),
    (b"a", b"n"),
    (b"an", b"d"),
    (b" ", b"and"),
    (b" ", b"a"),
    (b"e", b"r"),
    (b"o", b"n"),
    (b" ", b" "),
    (b"\xc3", b"\xa9"),
    (b"\xf0", b"\x9f"),
    (b" ", b"\xf0\x9f"),
)
FILE_TYPES = {
    gguf.GGMLQuantizationType.F32: gguf.LlamaFileType.ALL_F32,
    gguf.GGMLQuantizationType.F16: gguf.LlamaFileType.MOSTLY_F16,
    gguf.GGMLQuantizationType.Q4_0: gguf.LlamaFileType.MOSTLY_Q4_0,
    gguf.GGMLQuantizationType.Q4_1: gguf.LlamaFileType.MOSTLY_Q4_1,
    gguf.GGMLQuantizationType.Q8_0: gguf.LlamaFileType.MOSTLY_Q8_0,
}


def byte_alphabet() -> dict[int, str]:
    """GPT-2's spelling of bytes: printable Latin-1 as itself, the others from U+0100 upwards."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(hidden)}


def pieces() -> list[bytes]:
    """The ordinary tokens' bytes by id; control tokens follow them."""
    return [bytes([byte]) for byte in range(256)] + [left + right for left, right in MERGES]


def write_tiny_gguf(
    path: Path | str,
    *,
    architecture: str = "llama",
    name: str = "tiny",
    fim: bool = True,
    seed: int = 0,
    context_length: int = 512,
    tensor_type: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    tokenizer: str = "gpt2",
    add_bos: bool = False,
    tied: bool = False,
    control_tokens: tuple[str, ...] = (),
    chat_template: str | None = None,
    sampling: Mapping[str, Any] | None = None,
) -> Path:
    """Architectures: llama, qwen2, qwen3, mamba (recurrent, F32). `control_tokens` come last.

    `sampling`: values of `general.sampling.*`.
    """
    writer = Writer(path, architecture)
    writer.add_name(name)
    writer.add_file_type(FILE_TYPES[tensor_type])
    _add_shape(writer, context_length)
    if architecture == "mamba":
        _add_ssm(writer)
    if chat_template is not None:
        writer.add_chat_template(chat_template)
    for key, value in (sampling or {}).items():
        writer.add_key_value(f"general.sampling.{key}", value, gguf.GGUFValueType.get_type(value))
    controls = [END, *(FIM.values() if fim else ()), *control_tokens]
    writer.add_vocab_size(len(pieces()) + len(controls))
    writer.add_tokenizer_model(tokenizer)
    add_vocabulary(writer, controls, add_bos)
    for key, tensor in _tensors(architecture, len(controls), tied, seed).items():
        quantizable = tensor.ndim == 2 and tensor.shape[1] % 32 == 0
        kind = tensor_type if quantizable else gguf.GGMLQuantizationType.F32
        writer.add_tensor(key, gguf.quantize(tensor, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(path)


def _add_shape(writer: gguf.GGUFWriter, context_length: int) -> None:
    """Each architecture reads the keys it knows."""
    writer.add_context_length(context_length)
    writer.add_embedding_length(DIM)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(ROPE_BASE)


def _add_ssm(writer: gguf.GGUFWriter) -> None:
    writer.add_ssm_conv_kernel(SSM_CONV)
    writer.add_ssm_inner_size(SSM_INNER)
    writer.add_ssm_state_size(SSM_STATE)
    writer.add_ssm_time_step_rank(SSM_RANK)


def add_vocabulary(writer: gguf.GGUFWriter, controls: list[str], add_bos: bool) -> None:
    alphabet = byte_alphabet()

    def spell(piece: bytes) -> str:
        return "".join(alphabet[byte] for byte in piece)

    ordinary = pieces()
    tokens = [spell(piece) for piece in ordinary] + controls
    types = [gguf.TokenType.NORMAL] * len(ordinary) + [gguf.TokenType.CONTROL] * len(controls)
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([f"{spell(left)} {spell(right)}" for left, right in MERGES])
    writer.add_bos_token_id(tokens.index(END))
    writer.add_eos_token_id(tokens.index(END))
    writer.add_add_bos_token(add_bos)
    for key, text in FIM.items():
        if text in controls:
            writer.add_uint32(key, tokens.index(text))


def is_matrix(name: str) -> bool:
    """Whether a tensor of several dimensions may be packed."""
    others = (
        "norm",
        "bias",
        "probs_b",
        "gate_inp",
        "scale",
        "conv1d",
        "shortconv.conv",
        "lerp",
        "first",
        "coef",
    )
    return not name.endswith(("ssm_a", "ssm_d")) and not any(part in name for part in others)


class Weights:
    """Random matrices that keep the size of what passes through them.

    Made of integers and IEEE operations, so that the file is the same on every machine and with every numpy.
    """

    def __init__(self, seed: int):
        self._seed, self._taken = seed, 0

    def matrix(self, rows: int, columns: int, gain: float = 1.0) -> Array:
        values = self._numbers(rows * columns) * (gain / math.sqrt(columns))
        return values.astype(np.float32).reshape(rows, columns)

    def vector(self, mean: float, size: int) -> Array:
        return (mean + 0.1 * self._numbers(size)).astype(np.float32)

    def _numbers(self, count: int) -> NDArray[np.float64]:
        start, self._taken = self._taken, self._taken + count
        blocks = [
            _block(self._seed, number)
            for number in range(start // _BLOCK, -(-self._taken // _BLOCK))
        ]
        first = start % _BLOCK
        return np.concatenate(blocks)[first : first + count]


_BLOCK = 1 << 14


@lru_cache(256)
def _block(seed: int, number: int) -> NDArray[np.float64]:
    """Some of the seed's numbers, which hundreds of models are made of.

    About normal, of variance 1: sums of four 16-bit numbers out of Steele et al.'s SplitMix64.
    """
    first = (np.uint64(seed) << np.uint64(32)) + np.uint64(number * _BLOCK + 1)
    z = first + np.arange(_BLOCK, dtype=np.uint64)
    z *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    z ^= z >> np.uint64(31)
    parts = z.view(np.uint16).reshape(_BLOCK, 4).astype(np.float64)
    sums = parts[:, 0] + parts[:, 1] + parts[:, 2] + parts[:, 3]
    return (sums - 2 * 65535) / (65536 / math.sqrt(3))


def _tensors(architecture: str, num_controls: int, tied: bool, seed: int) -> dict[str, Array]:
    weights = Weights(seed)
    # Readable text most of the time: half characters are seldom drawn, control tokens hardly ever.
    readable = [piece.isascii() and piece.decode().isprintable() for piece in pieces()]
    liveliness = np.array([2.5 if yes else 1.0 for yes in readable] + [0.1] * num_controls, "f4")
    embedding = weights.matrix(len(liveliness), DIM, 0.5 * math.sqrt(DIM))
    output = weights.matrix(len(liveliness), DIM) * liveliness[:, None]
    tensors = {
        "output_norm.weight": weights.vector(1.0, DIM),
        "token_embd.weight": output if tied else embedding,
    }
    if not tied:
        tensors["output.weight"] = output
    for layer in range(LAYERS):
        block = _mamba(weights) if architecture == "mamba" else _transformer(architecture, weights)
        tensors |= {f"blk.{layer}.{name}": tensor for name, tensor in block.items()}
    return tensors


def _transformer(architecture: str, weights: Weights) -> dict[str, Array]:
    kv_dim = HEAD_DIM * KV_HEADS
    block = {
        "attn_norm.weight": weights.vector(1.0, DIM),
        "attn_q.weight": weights.matrix(DIM, DIM, 1.3),
        "attn_k.weight": weights.matrix(kv_dim, DIM, 1.3),
        "attn_v.weight": weights.matrix(kv_dim, DIM),
        "attn_output.weight": weights.matrix(DIM, DIM),
        "ffn_norm.weight": weights.vector(1.0, DIM),
        "ffn_gate.weight": weights.matrix(FFN, DIM),
        "ffn_up.weight": weights.matrix(FFN, DIM),
        "ffn_down.weight": weights.matrix(DIM, FFN),
    }
    if architecture == "qwen2":
        sizes = {"attn_q": DIM, "attn_k": kv_dim, "attn_v": kv_dim}
        block |= {f"{name}.bias": weights.vector(0.0, size) for name, size in sizes.items()}
    if architecture == "qwen3":
        block |= {f"attn_{name}_norm.weight": weights.vector(1.0, HEAD_DIM) for name in "qk"}
    return block


def _mamba(weights: Weights) -> dict[str, Array]:
    return {
        "attn_norm.weight": weights.vector(1.0, DIM),
        "ssm_in.weight": weights.matrix(2 * SSM_INNER, DIM),
        "ssm_conv1d.weight": weights.matrix(SSM_INNER, SSM_CONV, 2.0),
        "ssm_conv1d.bias": weights.vector(0.0, SSM_INNER),
        "ssm_x.weight": weights.matrix(SSM_RANK + 2 * SSM_STATE, SSM_INNER, 2.0),
        "ssm_dt.weight": weights.matrix(SSM_INNER, SSM_RANK),
        "ssm_dt.bias": weights.vector(-1.0, SSM_INNER),
        "ssm_a": np.full((SSM_INNER, SSM_STATE), -1.0, np.float32),
        "ssm_d": weights.vector(1.0, SSM_INNER),
        "ssm_out.weight": weights.matrix(DIM, SSM_INNER),
    }
