"""Writes a tiny GGUF with random weights and the names that real files have, as a description says."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.support.models.layers.tiny_delta import delta_net
from tests.support.models.layers.tiny_gemma3n import is_left_as_halves, of_all_layers, of_streams
from tests.support.models.layers.tiny_gemma4 import (
    beside_experts,
    embeddings_of_layers,
    of_embeddings,
)
from tests.support.models.layers.tiny_hybrids import kda, mamba, mamba1, plamo, short_convolution
from tests.support.models.layers.tiny_latent import TinyLatent
from tests.support.models.layers.tiny_next import pairing
from tests.support.models.layers.tiny_pictures import of_pictures, with_tokens
from tests.support.models.layers.tiny_rwkv import rwkv6_layer, rwkv_layer
from tests.support.models.quick_writer import Writer
from tests.support.models.tiny_gguf import END, Weights, add_vocabulary, is_matrix, pieces

Array = NDArray[np.float32]
Value = int | float | bool | str | list[bool] | list[int] | list[float]

LAYERS, WIDTH, HEADS, KEY_HEADS, HIDDEN = 3, 64, 4, 2, 96
GROUP = 32  # columns of a quantised block
PER_LAYER = "embedding_length_per_layer_input"
RMS, LAYER = "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"


@dataclass(frozen=True)
class Tiny:
    """What a model's file has; tensors by their names in a layer."""

    architecture: str
    settings: Mapping[str, Value] = field(default_factory=dict)
    epsilon: str = RMS
    norms: tuple[str, ...] = ("attn_norm", "ffn_norm")
    has_norm_bias: bool = False
    has_norm_weights: bool = True
    head_size: int = WIDTH // HEADS
    heads: int = HEADS
    value_size: int = 0  # of heads; 0: as keys
    key_heads: int = KEY_HEADS
    is_fused: bool = False  # queries, keys and values
    qkv_bias: bool = False
    head_norms: str = ""  # each, own, whole, gains
    feed_forward: tuple[str, ...] = ("gate", "up", "down")
    up_rows: int = HIDDEN
    biases: tuple[str, ...] = ()
    experts: int = 0
    expert_step: int = 1  # each that many-th layer has experts, though no setting says so
    shared_hidden: int = 0
    is_shared_gated: bool = False
    expert_bias: bool = False
    choice_bias: bool = False
    has_sinks: bool = False
    has_windowed_sinks: bool = False  # in layers with a window only
    is_attention_gated: bool = False
    gate_rows: int = 0  # if it is gated by less than a number for each dimension
    is_gate_joined: bool = False  # with the queries
    delta: str = ""  # layers without attention: tiled, grouped, or grouped and in one matrix
    is_tied: bool = False
    has_embedding_norm: bool = False
    factors: tuple[str, ...] = ()  # of rotations
    learned_positions: int = 0
    context_length: int = 512
    layers: int = LAYERS
    next_layers: int = 0  # for drafts
    draft_extras: tuple[str, ...] = ()  # what these have of a norm, a head and embeddings
    is_draft_dense: bool = False  # these have no experts
    has_unused_keys: bool = False  # in layers that read another's
    lacks_values: bool = False  # keys are values too, in layers without a window
    has_layer_scales: bool = False
    has_stacks: bool = False
    has_dense_beside: bool = False  # each layer with experts has a dense feed-forward too
    output_norm: str = "output_norm"
    # "conv", "mamba", "mamba1", "plamo", "kda", "kda whole": of layers without keys; "mamba beside": of all layers,
    # with attention; "rwkv", "rwkv adapted", "rwkv6", "rwkv6 apart", "rwkv6 adapted": of all, with all else they have.
    mixer: str = ""
    has_mixer_norm: bool = True
    has_time_norms: bool = False
    is_alone: bool = False  # layers are a mixer or a feed-forward, not both
    # Of names of norms, if not ".weight", and of "exp_probs_b", if not ".bias".
    ends: Mapping[str, str] = field(default_factory=dict)
    latent: TinyLatent | None = None
    has_streams: bool = False
    means: Mapping[str, float] = field(default_factory=dict)  # of norms' weights, if not the usual
    embedding_gain: float = 0.0  # 0: as is usual
    feeds_beside: bool = False  # each layer has a feed-forward beside its experts, without norms
    beside_hidden: int = 0  # its columns; 0: as usual
    has_head_norm_bias: bool = False
    more_tokens: int = 0
    has_sub_norms: bool = False  # of what the last products take
    has_pictures: bool = False  # layers have matrices of their own for what pictures give

    def with_settings(self, **settings: Value) -> "Tiny":
        known = {name.replace("__", "."): value for name, value in settings.items()}
        return replace(self, settings={**self.settings, **known})

    def count(self, key: str, default: int) -> int:
        """A setting that is a count."""
        value = self.settings.get(key, default)
        assert isinstance(value, int)
        return value

    def of_layer(self, key: str, layer: int, default: int) -> int:
        """What a list of counts says of a layer; the default if the setting is not a list."""
        value = self.settings.get(key)
        return int(value[layer]) if isinstance(value, list) else default

    def is_windowed(self, layer: int) -> bool:
        """If the file lists the layers with a window."""
        listed = self.settings.get("attention.sliding_window_pattern")
        return isinstance(listed, list) and bool((*listed, *[False] * self.next_layers)[layer])

    def size_of(self, layer: int) -> int:
        """Of a head."""
        own = self.count("attention.key_length_swa", self.head_size)
        return own if self.is_windowed(layer) else self.head_size


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
    changed: Callable[[str, Array], Array] = lambda _, tensor: tensor,
) -> Path:
    """`changed`: what a tensor is to be, by its name, in place of random weights."""
    writer = Writer(path, tiny.architecture)
    kinds = {
        bool: gguf.GGUFValueType.BOOL,
        int: gguf.GGUFValueType.UINT32,
        float: gguf.GGUFValueType.FLOAT32,
        str: gguf.GGUFValueType.STRING,
    }
    add_tokens = with_tokens(tiny.more_tokens) if tiny.more_tokens else vocabulary
    vocab, quiet = add_tokens(writer)
    for name, value in _settings(tiny, vocab).items():
        key = name if name.startswith("xielu.") else f"{tiny.architecture}.{name}"
        if isinstance(value, list):
            writer.add_array(key, value)
        else:
            writer.add_key_value(key, value, kinds[type(value)])
    for name, made in _tensors(tiny, Weights(seed), vocab):
        tensor = changed(name, made)
        if name in ("output.weight", "token_embd.weight"):
            tensor[vocab - quiet :] *= np.float32(0.1)
        is_kind = tensor.ndim > 1 and is_matrix(name) and tensor.shape[-1] % GROUP == 0
        own = kind if is_kind else gguf.GGMLQuantizationType.F32
        if is_kind and is_left_as_halves(name) and kind != gguf.GGMLQuantizationType.F32:
            own = gguf.GGMLQuantizationType.F16
        writer.add_tensor(name, gguf.quantize(tensor, own), raw_dtype=own)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(path)


def _settings(tiny: Tiny, vocab: int) -> dict[str, Value]:
    told: dict[str, Value] = {
        "context_length": tiny.context_length,
        "embedding_length": WIDTH,
        "block_count": tiny.layers + tiny.next_layers,
        "feed_forward_length": HIDDEN,
        "attention.head_count": tiny.heads,
        "attention.head_count_kv": tiny.key_heads,
        "attention.key_length": tiny.head_size,
        "attention.value_length": tiny.value_size or tiny.head_size,
        tiny.epsilon: 1e-5,
        "vocab_size": vocab,
        **(tiny.latent.settings() if tiny.latent else {}),
        **tiny.settings,
    }
    if tiny.latent is not None and not tiny.latent.tells_values:
        del told["attention.value_length"]
    return told


def _tensors(tiny: Tiny, weights: Weights, vocab: int) -> Iterator[tuple[str, Array]]:
    gain = tiny.embedding_gain or (2.5 if tiny.is_tied else 8.0)
    width = tiny.count("embedding_length", WIDTH)
    yield "token_embd.weight", weights.matrix(vocab, width, gain)
    if tiny.has_norm_weights:
        yield f"{tiny.output_norm}.weight", weights.vector(1.0, width)
    if tiny.has_norm_bias:
        yield "output_norm.bias", weights.vector(0.0, width)
    if not tiny.is_tied:
        yield "output.weight", weights.matrix(vocab, width, 2.5)
    if tiny.has_embedding_norm or tiny.mixer in ("rwkv", "rwkv6", "rwkv6 apart"):
        yield "token_embd_norm.weight", weights.vector(1.0, width)
        yield "token_embd_norm.bias", weights.vector(0.0, width)
    if "output" in tiny.biases:
        yield "output.bias", weights.vector(0.0, vocab)
    if tiny.has_stacks:
        yield "hrm.z_l_init", weights.vector(0.5, width)
    if tiny.learned_positions:
        yield "position_embd.weight", weights.matrix(tiny.learned_positions, WIDTH, 4.0)
    pairs = tiny.count("rope.dimension_count", tiny.head_size) // 2
    yield from embeddings_of_layers(tiny.count(PER_LAYER, 0), tiny.layers, WIDTH, vocab, weights)
    if tiny.has_streams:
        yield from of_all_layers(WIDTH, weights)
    for i, name in enumerate(tiny.factors):
        yield f"{name}.weight", np.abs(weights.vector(2.0 - i, pairs))
    for layer in range(tiny.layers + tiny.next_layers):
        of_layer = (
            _rwkv(tiny, weights, layer)
            if tiny.mixer.startswith("rwkv")
            else (
                *(
                    pairing(tiny.draft_extras, vocab, WIDTH, weights)
                    if layer >= tiny.layers
                    else ()
                ),
                *_norms(tiny, weights, layer),
                *_mixer(tiny, weights, layer),
                *_feed_forward(tiny, weights, layer),
                *(of_pictures(WIDTH, HIDDEN, weights) if tiny.has_pictures else ()),
                *of_embeddings(tiny.count(PER_LAYER, 0), WIDTH, weights),
                *(of_streams(WIDTH, weights) if tiny.has_streams else ()),
            )
        )
        for name, tensor in of_layer:
            yield f"blk.{layer}.{name}", tensor
        if tiny.has_layer_scales:
            yield f"blk.{layer}.layer_output_scale.weight", weights.vector(0.7, 1)


def _rwkv(tiny: Tiny, weights: Weights, layer: int) -> tuple[tuple[str, Array], ...]:
    hidden, is_adapted = tiny.count("feed_forward_length", HIDDEN), "adapted" in tiny.mixer
    if tiny.mixer.startswith("rwkv6"):
        is_fused = tiny.mixer != "rwkv6 apart"
        return (*rwkv6_layer(tiny.count, hidden, weights, is_adapted, is_fused, tiny.qkv_bias),)
    return (*rwkv_layer(tiny.count, layer, hidden, weights, is_adapted, tiny.has_mixer_norm),)


def _norms(tiny: Tiny, weights: Weights, layer: int) -> Iterator[tuple[str, Array]]:
    counts = {"attn_norm": "attention.head_count", "ffn_norm": "feed_forward_length"}
    for name in tiny.norms if tiny.has_norm_weights else ():
        if tiny.architecture == "deci" and not tiny.of_layer(counts[name], layer, 1):
            continue
        yield (
            f"{name}{tiny.ends.get(name, '.weight')}",
            weights.vector(tiny.means.get(name, 1.0), WIDTH),
        )
        if tiny.has_norm_bias:
            yield f"{name}.bias", weights.vector(0.0, WIDTH)


def _mixer(tiny: Tiny, weights: Weights, layer: int) -> Iterator[tuple[str, Array]]:
    """What passes something from token to token: attention, or what the layer has instead, or beside it."""
    if tiny.is_alone and tiny.of_layer("feed_forward_length", layer, 0):
        return
    if tiny.delta and layer < tiny.layers and (layer + 1) % 4:
        yield from delta_net(tiny.settings, tiny.delta, WIDTH, weights)
        return
    has_keys = tiny.of_layer("attention.head_count_kv", layer, tiny.key_heads) > 0
    if has_keys:
        yield from _attention(tiny, weights, layer)
    elif tiny.architecture == "deci" and tiny.of_layer("attention.head_count", layer, 0):
        yield "attn_output.weight", weights.matrix(WIDTH, WIDTH)
    if tiny.mixer == "conv" and not has_keys:
        yield from short_convolution(tiny.count, WIDTH, weights)
    elif tiny.mixer == "mamba beside" or (tiny.mixer == "mamba" and not has_keys):
        yield from mamba(tiny.count, WIDTH, weights, tiny.has_mixer_norm)
    elif tiny.mixer in ("kda", "kda whole") and not has_keys:
        yield from kda(tiny.count, HEADS, WIDTH, weights, tiny.mixer == "kda whole")
    elif tiny.mixer == "plamo" and not has_keys:
        yield from plamo(tiny.count, WIDTH, weights)
    elif tiny.mixer == "mamba1" and not has_keys:
        yield from mamba1(tiny.count, WIDTH, weights, tiny.has_time_norms)


def _attention(tiny: Tiny, weights: Weights, layer: int) -> Iterator[tuple[str, Array]]:
    size = tiny.size_of(layer)
    key_heads = tiny.of_layer("attention.head_count_kv", layer, tiny.key_heads)
    query_heads = tiny.of_layer("attention.head_count", layer, tiny.heads)
    queries, keys = query_heads * size, key_heads * size
    asked = queries * (2 if tiny.is_gate_joined else 1)
    if tiny.latent is not None:
        yield from tiny.latent.tensors(WIDTH, weights)
        if tiny.gate_rows:
            yield "attn_gate.weight", weights.matrix(tiny.gate_rows, WIDTH)
        return
    values = key_heads * (tiny.value_size or size)
    parts = {"q": asked, "k": keys, "v": values}
    if tiny.is_fused:
        parts = {"qkv": queries + keys + values}
    if tiny.layers > layer >= tiny.layers - tiny.count("attention.shared_kv_layers", 0):
        parts = parts if tiny.has_unused_keys else {"q": queries}
    elif tiny.lacks_values and not tiny.is_windowed(layer):
        del parts["v"]
    for name, rows in parts.items():
        yield f"attn_{name}.weight", weights.matrix(rows, WIDTH)
        if tiny.qkv_bias:
            yield f"attn_{name}.bias", weights.vector(0.0, rows)
    attended = query_heads * (tiny.value_size or size)
    yield "attn_output.weight", weights.matrix(WIDTH, attended)
    if "attn_output" in tiny.biases:
        yield "attn_output.bias", weights.vector(0.0, WIDTH)
    normed = {"q": query_heads, "k": key_heads}
    if tiny.head_norms == "gains":
        normed = {}
        yield "attn_q_norm.weight", weights.vector(1.2, query_heads).reshape(query_heads, 1)
    for name, heads in normed.items() if tiny.head_norms else ():
        if name not in parts and not tiny.is_fused:
            continue
        count = size if tiny.head_norms == "each" else heads * size
        norm = weights.vector(tiny.means.get(f"attn_{name}_norm", 1.2), count)
        yield (
            f"attn_{name}_norm.weight",
            norm.reshape(heads, size) if tiny.head_norms == "own" else norm,
        )
        if tiny.has_head_norm_bias:
            yield f"attn_{name}_norm.bias", weights.vector(0.0, count).reshape(heads, size)
        if tiny.head_norms == "whole" and tiny.has_norm_bias:
            yield f"attn_{name}_norm.bias", weights.vector(0.0, count)
    if tiny.is_attention_gated or tiny.gate_rows:
        rows = tiny.gate_rows * query_heads // HEADS
        yield "attn_gate.weight", weights.matrix(rows or queries, WIDTH)
    if tiny.has_sub_norms:
        yield "attn_sub_norm.weight", weights.vector(1.0, queries)
    if tiny.has_sinks or (tiny.has_windowed_sinks and tiny.is_windowed(layer)):
        yield "attn_sinks.weight", 5 * weights.vector(0.2, query_heads)


def _feed_forward(tiny: Tiny, weights: Weights, layer: int) -> Iterator[tuple[str, Array]]:
    hidden = tiny.of_layer("feed_forward_length", layer, HIDDEN)
    if not hidden:
        return
    is_every = (layer + 1) % tiny.count("interleave_moe_layer_step", tiny.expert_step) == 0
    is_dense = tiny.is_draft_dense and layer >= tiny.layers
    is_dense = is_dense or layer < tiny.count("leading_dense_block_count", 0)
    if tiny.experts and not is_dense and is_every:
        yield from _experts(tiny, weights)
        if not tiny.has_dense_beside and not tiny.feeds_beside:
            return
        if tiny.has_dense_beside:
            yield from beside_experts(tiny.experts, WIDTH, weights)
    if tiny.has_sub_norms:
        yield "ffn_sub_norm.weight", weights.vector(1.0, hidden)
    hidden = tiny.beside_hidden or hidden
    up_rows = tiny.up_rows * hidden // HIDDEN
    shapes = {"gate": (hidden, WIDTH), "up": (up_rows, WIDTH), "down": (WIDTH, hidden)}
    for name in tiny.feed_forward:
        yield f"ffn_{name}.weight", weights.matrix(*shapes[name])
        if f"ffn_{name}" in tiny.biases:
            yield f"ffn_{name}.bias", weights.vector(0.0, shapes[name][0])


def _experts(tiny: Tiny, weights: Weights) -> Iterator[tuple[str, Array]]:
    count, hidden = tiny.experts, tiny.count("expert_feed_forward_length", HIDDEN)
    yield "ffn_gate_inp.weight", weights.matrix(count, WIDTH, 2.0)
    if tiny.expert_bias:
        yield "ffn_gate_inp.bias", weights.vector(0.0, count)
    shapes = {"gate": (hidden, WIDTH), "up": (hidden, WIDTH), "down": (WIDTH, hidden)}
    shapes = {name: shapes[name] for name in tiny.feed_forward}
    if tiny.has_dense_beside:
        shapes = {"gate_up": (2 * hidden, WIDTH), "down": (WIDTH, hidden)}
    for name, (rows, columns) in shapes.items():
        flat = weights.matrix(count * rows, columns)
        yield f"ffn_{name}_exps.weight", flat.reshape(count, rows, columns)
        if tiny.expert_bias:
            yield f"ffn_{name}_exps.bias", weights.vector(0.0, count * rows).reshape(count, rows)
    if tiny.choice_bias:
        yield f"exp_probs_b{tiny.ends.get('exp_probs_b', '.bias')}", weights.vector(3.0, count)
    if tiny.shared_hidden:
        if tiny.is_shared_gated:
            yield "ffn_gate_inp_shexp.weight", weights.matrix(1, WIDTH)[0]
        for name in tiny.feed_forward:
            rows, columns = (
                (tiny.shared_hidden, WIDTH) if name != "down" else (WIDTH, tiny.shared_hidden)
            )
            yield f"ffn_{name}_shexp.weight", weights.matrix(rows, columns, 1.5)
