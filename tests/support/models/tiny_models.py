"""A tiny GGUF of every architecture, with random weights and the names that real files have."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.support.models.tiny_gguf import END, Weights, add_vocabulary, pieces

Array = NDArray[np.float32]
Value = int | float | bool | str

LAYERS, WIDTH, HEADS, KEY_HEADS, HIDDEN = 3, 64, 4, 2, 96
RMS, LAYER = "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"
_AFTER = ("post_attention_norm", "post_ffw_norm")


@dataclass(frozen=True)
class Tiny:
    """What a model's file has; tensors by their names in a layer."""

    architecture: str
    settings: Mapping[str, Value] = field(default_factory=dict)
    epsilon: str = RMS
    norms: tuple[str, ...] = ("attn_norm", "ffn_norm")
    has_norm_bias: bool = False
    head_size: int = WIDTH // HEADS
    key_heads: int = KEY_HEADS
    is_fused: bool = False  # queries, keys and values
    qkv_bias: bool = False
    head_norms: str = ""  # each, own, whole
    feed_forward: tuple[str, ...] = ("gate", "up", "down")
    up_rows: int = HIDDEN
    biases: tuple[str, ...] = ()
    experts: int = 0
    shared_hidden: int = 0
    expert_bias: bool = False
    has_sinks: bool = False
    is_tied: bool = False
    factors: tuple[str, ...] = ()  # of rotations
    learned_positions: int = 0
    context_length: int = 512
    layers: int = LAYERS

    def with_settings(self, **settings: Value) -> "Tiny":
        known = {name.replace("__", "."): value for name, value in settings.items()}
        return replace(self, settings={**self.settings, **known})


_PLAIN = Tiny(
    "gpt2",
    epsilon=LAYER,
    has_norm_bias=True,
    qkv_bias=True,
    feed_forward=("up", "down"),
    biases=("attn_output", "ffn_up", "ffn_down"),
)
_LLAMA = Tiny("llama")
_MIXTURE: dict[str, Value] = {"expert_count": 8, "expert_used_count": 3}
_GEMMA3 = Tiny(
    "gemma3",
    norms=("attn_norm", "ffn_norm", *_AFTER),
    head_size=32,
    head_norms="each",
    is_tied=True,
)
_OLMO2 = Tiny("olmo2", norms=_AFTER, head_norms="whole")
_NEOX = replace(_PLAIN, architecture="gptneox", is_fused=True, key_heads=HEADS).with_settings(
    rope__dimension_count=8
)
_YARN: dict[str, Value] = {
    "rope__scaling__type": "yarn",
    "rope__scaling__factor": 4.0,
    "rope__scaling__original_context_length": 128,
}
_LONG_ROPE: dict[str, Value] = {
    "rope__scaling__original_context_length": 64,
    "rope__scaling__attn_factor": 1.2,
}
_GRANITE = Tiny("granite").with_settings(
    logit_scale=0.5, residual_scale=1.3, embedding_scale=0.5, attention__scale=0.1
)
_COMMAND_R = Tiny("command-r", epsilon=LAYER, norms=("attn_norm",), is_tied=True).with_settings(
    logit_scale=0.5
)

MODELS: Mapping[str, Tiny] = {
    "llama": _LLAMA,
    "llama with experts": replace(_LLAMA, experts=8).with_settings(**_MIXTURE),
    "llama with biases": replace(
        _LLAMA, qkv_bias=True, biases=("attn_output", "ffn_gate", "ffn_up", "ffn_down")
    ),
    "llama, linear": _LLAMA.with_settings(rope__scaling__type="linear", rope__scaling__factor=4.0),
    "llama, factors": replace(_LLAMA, factors=("rope_freqs",)),
    "llama, YaRN": _LLAMA.with_settings(**_YARN),
    "llama, long rope": replace(
        _LLAMA, factors=("rope_factors_long", "rope_factors_short")
    ).with_settings(**_LONG_ROPE, rope__scaling__type="longrope"),
    "qwen2": Tiny("qwen2", qkv_bias=True),
    "qwen2, biased head": Tiny("qwen2", qkv_bias=True, biases=("output",)),
    "qwen3": Tiny("qwen3", head_norms="each", head_size=32),
    "qwen2moe": Tiny("qwen2moe", qkv_bias=True, experts=8, shared_hidden=64).with_settings(
        **_MIXTURE, expert_feed_forward_length=32, expert_shared_feed_forward_length=64
    ),
    "qwen3moe": Tiny("qwen3moe", head_norms="each", experts=8).with_settings(
        **_MIXTURE, expert_feed_forward_length=32
    ),
    "gemma": Tiny("gemma", head_size=32, key_heads=1, is_tied=True),
    "gemma2": replace(_GEMMA3, architecture="gemma2", head_norms="").with_settings(
        attention__sliding_window=20, attn_logit_softcapping=5.0, final_logit_softcapping=8.0
    ),
    "gemma3": _GEMMA3.with_settings(
        attention__sliding_window=20,
        attention__sliding_window_pattern=2,
        rope__freq_base=1e6,
        rope__scaling__type="linear",
        rope__scaling__factor=8.0,
    ),
    "gemma3, own head, capped": replace(_GEMMA3, is_tied=False).with_settings(
        attention__sliding_window=20, final_logit_softcapping=8.0
    ),
    "phi2": replace(
        _PLAIN, architecture="phi2", norms=("attn_norm",), biases=(*_PLAIN.biases, "output"),
        is_fused=True, key_heads=HEADS,
    ).with_settings(rope__dimension_count=8),
    "phi3": Tiny("phi3", is_fused=True, feed_forward=("up", "down"), up_rows=2 * HIDDEN),
    "phi3, long rope": Tiny(
        "phi3", is_fused=True, feed_forward=("up", "down"), up_rows=2 * HIDDEN,
        factors=("rope_factors_long", "rope_factors_short"),
    ).with_settings(**_LONG_ROPE),
    "starcoder2": replace(_PLAIN, architecture="starcoder2"),
    "stablelm": Tiny("stablelm", epsilon=LAYER, has_norm_bias=True).with_settings(
        rope__dimension_count=4, use_parallel_residual=True
    ),
    "stablelm, parallel": Tiny(
        "stablelm", epsilon=LAYER, has_norm_bias=True, norms=("attn_norm",), head_norms="own"
    ).with_settings(rope__dimension_count=4, use_parallel_residual=True),
    "olmo2": _OLMO2,
    "olmo2 with windows": _OLMO2.with_settings(
        attention__sliding_window=20, attention__sliding_window_pattern=2, **_YARN
    ),
    "granite": _GRANITE,
    "granite with biases, long rope": replace(
        _GRANITE, biases=("attn_output", "ffn_gate", "ffn_up", "ffn_down"),
        factors=("rope_factors_long", "rope_factors_short"),
    ).with_settings(**_LONG_ROPE, rope__scaling__type="longrope"),
    "internlm2": Tiny("internlm2"),
    "command-r": _COMMAND_R,
    "gpt2": replace(_PLAIN, is_fused=True, key_heads=HEADS, learned_positions=512),
    "gptneox": _NEOX.with_settings(use_parallel_residual=True),
    "gptneox, sequential": _NEOX.with_settings(use_parallel_residual=False),
    "gpt-oss": Tiny(
        "gpt-oss", norms=("attn_norm", "post_attention_norm"), head_size=32, qkv_bias=True,
        biases=("attn_output",), experts=8, expert_bias=True, has_sinks=True,
    ).with_settings(
        **_MIXTURE, **_YARN, expert_feed_forward_length=96, attention__sliding_window=20
    ),
    "nemotron": replace(_PLAIN, architecture="nemotron", qkv_bias=False).with_settings(
        rope__dimension_count=8
    ),
    "arcee": Tiny("arcee", feed_forward=("up", "down")),
}  # fmt: skip
# What models of the table do only if they have many layers.
DEEP: Mapping[str, Tiny] = {
    "gemma2, 46 layers": replace(MODELS["gemma2"], layers=46),
    "gemma3, 62 layers": replace(MODELS["gemma3"], layers=62),
    "command-r, 64 layers": replace(_COMMAND_R, head_norms="own", layers=64),
}


Vocabulary = Callable[[gguf.GGUFWriter], tuple[int, int]]
"""Adds the tokens; gives their number, and how many of the last ones are hardly ever drawn."""


def usual_vocabulary(writer: gguf.GGUFWriter) -> tuple[int, int]:
    writer.add_tokenizer_model("gpt2")
    add_vocabulary(writer, [END], False)
    return len(pieces()) + 1, 0


def write(
    path: Path | str,
    tiny: Tiny,
    seed: int = 0,
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    vocabulary: Vocabulary = usual_vocabulary,
) -> Path:
    writer = gguf.GGUFWriter(path, tiny.architecture)
    kinds = {
        bool: gguf.GGUFValueType.BOOL,
        int: gguf.GGUFValueType.UINT32,
        float: gguf.GGUFValueType.FLOAT32,
        str: gguf.GGUFValueType.STRING,
    }
    vocab, quiet = vocabulary(writer)
    for name, value in _settings(tiny, vocab).items():
        writer.add_key_value(f"{tiny.architecture}.{name}", value, kinds[type(value)])
    for name, tensor in _tensors(tiny, Weights(seed), vocab):
        if name in ("output.weight", "token_embd.weight"):
            tensor[vocab - quiet :] *= np.float32(0.1)
        own = kind if tensor.ndim > 1 and _is_matrix(name) else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quantize(tensor, own), raw_dtype=own)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(path)


def _is_matrix(name: str) -> bool:
    return not any(part in name for part in ("norm", "bias", "gate_inp"))


def _settings(tiny: Tiny, vocab: int) -> dict[str, Value]:
    return {
        "context_length": tiny.context_length,
        "embedding_length": WIDTH,
        "block_count": tiny.layers,
        "feed_forward_length": HIDDEN,
        "attention.head_count": HEADS,
        "attention.head_count_kv": tiny.key_heads,
        "attention.key_length": tiny.head_size,
        "attention.value_length": tiny.head_size,
        tiny.epsilon: 1e-5,
        "vocab_size": vocab,
        **tiny.settings,
    }


def _tensors(tiny: Tiny, weights: Weights, vocab: int) -> Iterator[tuple[str, Array]]:
    yield "token_embd.weight", weights.matrix(vocab, WIDTH, 2.5 if tiny.is_tied else 8.0)
    yield "output_norm.weight", weights.vector(1.0, WIDTH)
    if tiny.has_norm_bias:
        yield "output_norm.bias", weights.vector(0.0, WIDTH)
    if not tiny.is_tied:
        yield "output.weight", weights.matrix(vocab, WIDTH, 2.5)
    if "output" in tiny.biases:
        yield "output.bias", weights.vector(0.0, vocab)
    if tiny.learned_positions:
        yield "position_embd.weight", weights.matrix(tiny.learned_positions, WIDTH, 4.0)
    pairs = int(tiny.settings.get("rope.dimension_count", tiny.head_size)) // 2
    for i, name in enumerate(tiny.factors):
        yield f"{name}.weight", np.abs(weights.vector(2.0 - i, pairs))
    for layer in range(tiny.layers):
        for name, tensor in (*_attention(tiny, weights), *_feed_forward(tiny, weights)):
            yield f"blk.{layer}.{name}", tensor


def _attention(tiny: Tiny, weights: Weights) -> Iterator[tuple[str, Array]]:
    size = tiny.head_size
    queries, keys = HEADS * size, tiny.key_heads * size
    for name in tiny.norms:
        yield f"{name}.weight", weights.vector(1.0, WIDTH)
        if tiny.has_norm_bias:
            yield f"{name}.bias", weights.vector(0.0, WIDTH)
    parts = {"qkv": queries + 2 * keys} if tiny.is_fused else {"q": queries, "k": keys, "v": keys}
    for name, rows in parts.items():
        yield f"attn_{name}.weight", weights.matrix(rows, WIDTH)
        if tiny.qkv_bias:
            yield f"attn_{name}.bias", weights.vector(0.0, rows)
    yield "attn_output.weight", weights.matrix(WIDTH, queries)
    if "attn_output" in tiny.biases:
        yield "attn_output.bias", weights.vector(0.0, WIDTH)
    for name, heads in {"q": HEADS, "k": tiny.key_heads}.items() if tiny.head_norms else ():
        count = size if tiny.head_norms == "each" else heads * size
        norm = weights.vector(1.2, count)
        yield (
            f"attn_{name}_norm.weight",
            norm.reshape(heads, size) if tiny.head_norms == "own" else norm,
        )
    if tiny.has_sinks:
        yield "attn_sinks.weight", 5 * weights.vector(0.2, HEADS)


def _feed_forward(tiny: Tiny, weights: Weights) -> Iterator[tuple[str, Array]]:
    if tiny.experts:
        yield from _experts(tiny, weights)
        return
    shapes = {"gate": (HIDDEN, WIDTH), "up": (tiny.up_rows, WIDTH), "down": (WIDTH, HIDDEN)}
    for name in tiny.feed_forward:
        yield f"ffn_{name}.weight", weights.matrix(*shapes[name])
        if f"ffn_{name}" in tiny.biases:
            yield f"ffn_{name}.bias", weights.vector(0.0, shapes[name][0])


def _experts(tiny: Tiny, weights: Weights) -> Iterator[tuple[str, Array]]:
    count, hidden = tiny.experts, int(tiny.settings.get("expert_feed_forward_length", HIDDEN))
    yield "ffn_gate_inp.weight", weights.matrix(count, WIDTH, 2.0)
    if tiny.expert_bias:
        yield "ffn_gate_inp.bias", weights.vector(0.0, count)
    shapes = {"gate": (hidden, WIDTH), "up": (hidden, WIDTH), "down": (WIDTH, hidden)}
    for name, (rows, columns) in shapes.items():
        flat = weights.matrix(count * rows, columns)
        yield f"ffn_{name}_exps.weight", flat.reshape(count, rows, columns)
        if tiny.expert_bias:
            yield f"ffn_{name}_exps.bias", weights.vector(0.0, count * rows).reshape(count, rows)
    if tiny.shared_hidden:
        yield "ffn_gate_inp_shexp.weight", weights.matrix(1, WIDTH)[0]
        for name in ("gate", "up", "down"):
            rows, columns = (
                (tiny.shared_hidden, WIDTH) if name != "down" else (WIDTH, tiny.shared_hidden)
            )
            yield f"ffn_{name}_shexp.weight", weights.matrix(rows, columns, 1.5)
