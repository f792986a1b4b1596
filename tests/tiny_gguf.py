"""A tiny GGUF with random weights and a byte-level vocabulary: quick to load, speaks nonsense."""

import math
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

LAYERS, DIM, HEADS, KV_HEADS, FFN = 2, 128, 4, 2, 256
HEAD_DIM = DIM // HEADS
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
    fim: bool = True,
    seed: int = 0,
    context_length: int = 512,
    tensor_type: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    add_bos: bool = False,
    tied: bool = False,
    control_tokens: tuple[str, ...] = (),
    chat_template: str | None = None,
) -> Path:
    """`architecture` is llama, qwen2 or qwen3; `control_tokens` are added after the usual ones."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_file_type(FILE_TYPES[tensor_type])
    writer.add_context_length(context_length)
    writer.add_embedding_length(DIM)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(EPSILON)
    if chat_template is not None:
        writer.add_chat_template(chat_template)
    controls = [END, *(FIM.values() if fim else ()), *control_tokens]
    writer.add_vocab_size(len(pieces()) + len(controls))
    _add_vocabulary(writer, controls, add_bos)
    for name, tensor in _tensors(architecture, len(controls), tied, seed).items():
        kind = tensor_type if tensor.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quantize(tensor, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(path)


def _add_vocabulary(writer: gguf.GGUFWriter, controls: list[str], add_bos: bool) -> None:
    alphabet = byte_alphabet()

    def spell(piece: bytes) -> str:
        return "".join(alphabet[byte] for byte in piece)

    ordinary = pieces()
    tokens = [spell(piece) for piece in ordinary] + controls
    types = [gguf.TokenType.NORMAL] * len(ordinary) + [gguf.TokenType.CONTROL] * len(controls)
    writer.add_tokenizer_model("gpt2")
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


def _tensors(
    architecture: str, num_controls: int, tied: bool, seed: int
) -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(seed)

    def normal(rows: int, columns: int, gain: float = 1.0) -> NDArray[np.float32]:
        values = random.standard_normal((rows, columns)) * (gain / math.sqrt(columns))
        return values.astype(np.float32)

    def about(mean: float, size: int) -> NDArray[np.float32]:
        return (mean + 0.1 * random.standard_normal(size)).astype(np.float32)

    kv_dim = HEAD_DIM * KV_HEADS
    # Readable text most of the time: half characters are seldom drawn, control tokens hardly ever.
    readable = [piece.isascii() and piece.decode().isprintable() for piece in pieces()]
    liveliness = np.array([2.5 if yes else 1.0 for yes in readable] + [0.1] * num_controls, "f4")
    embedding = normal(len(liveliness), DIM) * np.float32(0.5 * math.sqrt(DIM))
    output = normal(len(liveliness), DIM) * liveliness[:, None]
    tensors = {"token_embd.weight": embedding, "output_norm.weight": about(1.0, DIM)}
    if not tied:
        tensors["output.weight"] = output
    for layer in range(LAYERS):
        block: dict[str, NDArray[np.float32]] = {
            "attn_norm.weight": about(1.0, DIM),
            "attn_q.weight": normal(DIM, DIM, 1.3),
            "attn_k.weight": normal(kv_dim, DIM, 1.3),
            "attn_v.weight": normal(kv_dim, DIM),
            "attn_output.weight": normal(DIM, DIM),
            "ffn_norm.weight": about(1.0, DIM),
            "ffn_gate.weight": normal(FFN, DIM),
            "ffn_up.weight": normal(FFN, DIM),
            "ffn_down.weight": normal(DIM, FFN),
        }
        if architecture == "qwen2":
            sizes = {"attn_q": DIM, "attn_k": kv_dim, "attn_v": kv_dim}
            block |= {f"{name}.bias": about(0.0, size) for name, size in sizes.items()}
        if architecture == "qwen3":
            block |= {f"attn_{name}_norm.weight": about(1.0, HEAD_DIM) for name in "qk"}
        tensors |= {f"blk.{layer}.{name}": tensor for name, tensor in block.items()}
    return tensors
