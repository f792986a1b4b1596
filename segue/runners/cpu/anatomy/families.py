"""The table of architectures: how the models of each architecture name in GGUF files compute.

To add an architecture, add a row. What varies between files of one architecture is read from the file: measures.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Turns = Literal["neighbours", "halves", "none"]
Rotated = Literal["all", "three of four", "windowed"]
Norm = Literal["rms", "layer"]
HeadNorms = Literal["none", "each", "each or none", "own", "whole"]
Residuals = Literal["sequential", "parallel", "by setting", "by norm"]
Activation = Literal["silu", "gelu", "squared relu", "clamped silu"]
Experts = Literal["none", "some", "all"]
Routing = Literal["renormalised", "softmax", "of the chosen", "sigmoid", "sigmoid renormalised"]
Sections = Literal["none", "side by side", "interleaved"]
Shared = Literal["none", "plain", "gated"]


@dataclass(frozen=True)
class Window:
    """Sliding-window attention: all layers but every `period`-th see only the last tokens."""

    period: int
    size: int = 0  # used if the file gives none; 0: then no layer has a window
    # The RoPE base of layers with a window, if the file gives none; 0: the base of all layers.
    base: float = 0.0
    is_plain: bool = False  # RoPE is not scaled in layers with a window
    layers: int = 0  # only models with this many layers have windows; 0: all


@dataclass(frozen=True)
class Family:
    """What all models of one architecture have in common."""

    # RoPE: the two dimensions of a pair are half a head apart ("halves") or neighbours; "none": learned positions.
    turns: Turns = "halves"
    # The layers with RoPE. "windowed": those with a window, if the model has such layers, else all.
    rotated: Rotated = "all"
    # How pairs of dimensions are shared out to positions in time and in a picture, which are all one for text.
    sections: Sections = "none"
    norm: Norm = "rms"
    has_norm_bias: bool = False
    norms: tuple[str, str] = ("attn_norm", "ffn_norm")  # before attention and feed-forward
    after: tuple[str, str] = ("", "")  # norms of their outputs, before the residual is added
    # Norms of queries and keys: per head with shared weights, per head with its own weights, or over all heads at once.
    head_norms: HeadNorms = "none"
    norms_heads_last: bool = False  # after they are rotated
    residuals: Residuals = "sequential"
    activation: Activation = "silu"
    is_gated: bool = True
    is_gate_fused: bool = False  # gate and up are one matrix
    halves_hidden: bool = False  # the file counts the columns of gate and up together
    experts: Experts = "none"
    # How scores of experts become shares. After "softmax" and "sigmoid" the file may ask for renormalising.
    routing: Routing = "renormalised"
    # An expert that every row uses. "gated": its share is computed; "plain": its share is 1, and a file may lack it.
    shared_expert: Shared = "none"
    has_choice_bias: bool = False  # experts may be chosen with a bias that their shares do not have
    has_sinks: bool = False
    biases: tuple[str, ...] = ()  # products with a bias, besides queries, keys and values
    may_bias: tuple[str, ...] = ()  # products that may have a bias
    is_tied: bool = False  # the output matrix is always the embedding matrix
    window: Window | None = None
    wide_scale: int = 0  # a model with this many layers scales queries by width / heads
    is_embedding_scaled: bool = False  # by the square root of the width
    score_cap: float = 0.0  # both caps: used if the file gives none
    logit_cap: float = 0.0
    divides_logits: bool = False  # logits are divided by the file's scale, not multiplied
    has_long_rope: bool = False  # the file may have RoPE factors for long and short contexts
    # Keys of the file, besides the common ones, that are read or have no effect. Any other key is refused.
    settings: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()  # those without which llama.cpp takes values of its own


_EXPERTS = ("expert_count", "expert_used_count")
_GROUPS = ("expert_group_count", "expert_group_used_count")
_WINDOWS = (
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "rope.freq_base_swa",
)
_FEED_FORWARD = ("ffn_gate", "ffn_up", "ffn_down")
_PLAIN = ("attn_output", "ffn_up", "ffn_down")
_AFTER = ("post_attention_norm", "post_ffw_norm")
_MIXTURE = (*_EXPERTS, "expert_feed_forward_length")
_SHARED = "expert_shared_feed_forward_length"
_DENSE_FIRST = (
    *_MIXTURE,
    "leading_dense_block_count",
    "expert_shared_count",
    "expert_weights_scale",
)
_SCALES = ("attention.scale", "embedding_scale", "residual_scale", "logit_scale")
_SIGMOID = (*_DENSE_FIRST, "expert_weights_norm", "expert_gating_func", *_GROUPS)
_SECTIONS = "rope.dimension_sections"
_PICTURES = (_SECTIONS, "n_deepstack_layers")  # layers that add what a picture gives; texts add 0

FAMILIES: Mapping[str, Family] = {
    "llama": Family(
        "neighbours",
        experts="some",
        may_bias=("attn_output", *_FEED_FORWARD),
        has_long_rope=True,
        settings=_EXPERTS,
    ),
    "mistral3": Family(
        "neighbours",
        experts="some",
        may_bias=("attn_output", *_FEED_FORWARD),
        has_long_rope=True,
        settings=(*_EXPERTS, "attention.temperature_scale", "rope.scaling.yarn_log_multiplier"),
    ),
    "qwen": Family(halves_hidden=True),
    "qwen2": Family(may_bias=("output",)),
    "qwen3": Family(head_norms="each"),
    "qwen2vl": Family(sections="side by side", settings=(_SECTIONS,), needed=(_SECTIONS,)),
    "qwen3vl": Family(
        sections="interleaved", head_norms="each", settings=_PICTURES, needed=(_SECTIONS,)
    ),
    "qwen2moe": Family(
        experts="all",
        routing="softmax",
        shared_expert="gated",
        settings=(*_MIXTURE, _SHARED),
    ),
    "qwen3moe": Family(head_norms="each", experts="all", settings=_MIXTURE),
    "qwen3vlmoe": Family(
        sections="interleaved",
        head_norms="each",
        experts="all",
        settings=(*_MIXTURE, *_PICTURES),
        needed=(_SECTIONS,),
    ),
    "gemma": Family(activation="gelu", is_tied=True, is_embedding_scaled=True),
    "gemma2": Family(
        after=_AFTER,
        activation="gelu",
        is_tied=True,
        window=Window(2, size=4096),
        wide_scale=46,
        is_embedding_scaled=True,
        score_cap=50.0,
        logit_cap=30.0,
        settings=(*_WINDOWS, "attn_logit_softcapping", "final_logit_softcapping"),
    ),
    "gemma3": Family(
        after=_AFTER,
        head_norms="each",
        activation="gelu",
        window=Window(6, base=10000.0, is_plain=True),
        wide_scale=62,
        is_embedding_scaled=True,
        settings=(*_WINDOWS, "final_logit_softcapping"),
    ),
    "phi2": Family(
        norm="layer",
        has_norm_bias=True,
        norms=("attn_norm", ""),
        residuals="parallel",
        activation="gelu",
        is_gated=False,
        biases=(*_PLAIN, "output"),
    ),
    # llama.cpp lets every layer of phi3 see all tokens, whatever the file says of a window.
    "phi3": Family(is_gate_fused=True, has_long_rope=True, settings=_WINDOWS[:1]),
    "starcoder2": Family(
        norm="layer", has_norm_bias=True, activation="gelu", is_gated=False, biases=_PLAIN
    ),
    "stablelm": Family(
        norm="layer",
        has_norm_bias=True,
        head_norms="own",
        residuals="by norm",
        settings=("use_parallel_residual",),
    ),
    "olmo2": Family(
        norms=("", ""),
        after=_AFTER,
        head_norms="whole",
        window=Window(4, is_plain=True),
        settings=_WINDOWS,
    ),
    "granite": Family(
        "neighbours",
        may_bias=("attn_output", *_FEED_FORWARD),
        divides_logits=True,
        has_long_rope=True,
        settings=_SCALES,
    ),
    "granitemoe": Family(
        "neighbours",
        experts="all",
        shared_expert="plain",
        may_bias=("attn_output",),
        divides_logits=True,
        has_long_rope=True,
        settings=(*_EXPERTS, _SHARED, *_SCALES),
    ),
    "minicpm": Family(
        "neighbours",
        may_bias=("attn_output", *_FEED_FORWARD),
        divides_logits=True,
        has_long_rope=True,
        settings=_SCALES[1:],
        needed=_SCALES[1:],
    ),
    "internlm2": Family("neighbours"),
    "command-r": Family(
        "neighbours",
        norm="layer",
        norms=("attn_norm", ""),
        head_norms="own",
        residuals="parallel",
        is_tied=True,
        settings=("logit_scale",),
    ),
    "gpt2": Family(
        "none", norm="layer", has_norm_bias=True, activation="gelu", is_gated=False, biases=_PLAIN
    ),
    "gptneox": Family(
        norm="layer",
        has_norm_bias=True,
        residuals="by setting",
        activation="gelu",
        is_gated=False,
        biases=_PLAIN,
        settings=("use_parallel_residual",),
    ),
    "falcon": Family(
        norm="layer",
        has_norm_bias=True,
        norms=("attn_norm", ""),
        residuals="parallel",
        activation="gelu",
        is_gated=False,
    ),
    "gpt-oss": Family(
        norms=("attn_norm", "post_attention_norm"),
        activation="clamped silu",
        experts="all",
        routing="of the chosen",
        has_sinks=True,
        biases=("attn_output",),
        window=Window(2),
        settings=(*_MIXTURE, *_WINDOWS),
    ),
    "nemotron": Family(
        norm="layer",
        has_norm_bias=True,
        activation="squared relu",
        is_gated=False,
        may_bias=_PLAIN,
    ),
    "arcee": Family("neighbours", activation="squared relu", is_gated=False),
    "smollm3": Family("neighbours", rotated="three of four"),
    "cohere2": Family(
        "neighbours",
        rotated="windowed",
        norm="layer",
        norms=("attn_norm", ""),
        residuals="parallel",
        is_tied=True,
        window=Window(4),
        settings=(*_WINDOWS[:2], "logit_scale"),
    ),
    "glm4": Family("neighbours", after=_AFTER, is_gate_fused=True),
    "exaone": Family(),
    "exaone4": Family(
        rotated="windowed",
        norms=("", ""),
        after=_AFTER,
        head_norms="each",
        window=Window(4, size=4096, layers=64),
        settings=_WINDOWS[:2],
    ),
    # Layers with a window turn by the base of all layers, whatever the file says of another.
    "exaone-moe": Family(
        rotated="windowed",
        head_norms="each",
        experts="all",
        routing="sigmoid",
        shared_expert="plain",
        has_choice_bias=True,
        window=Window(4),
        settings=(*_SIGMOID, _SHARED, *_WINDOWS[:2], "nextn_predict_layers"),
        needed=("attention.sliding_window", "expert_gating_func"),
    ),
    "mellum": Family(
        head_norms="each",
        experts="all",
        window=Window(4, is_plain=True),
        settings=(*_MIXTURE, *_WINDOWS[:2]),
    ),
    "minimax-m2": Family(
        head_norms="whole",
        experts="all",
        routing="sigmoid renormalised",
        has_choice_bias=True,
        settings=(*_MIXTURE, "expert_gating_func"),
        needed=("expert_gating_func",),
    ),
    "olmoe": Family(head_norms="whole", experts="all", routing="softmax", settings=_EXPERTS),
    "phimoe": Family(
        has_norm_bias=True,
        experts="all",
        biases=("attn_output", "output"),
        has_long_rope=True,
        settings=(*_EXPERTS, *_WINDOWS[:1]),
    ),
    "deepseek": Family(
        "neighbours",
        experts="all",
        routing="softmax",
        shared_expert="plain",
        settings=_DENSE_FIRST,
    ),
    "bailingmoe": Family(
        "neighbours",
        experts="all",
        routing="softmax",
        shared_expert="plain",
        settings=(*_DENSE_FIRST, "expert_weights_norm"),
    ),
    "dots1": Family(
        head_norms="each",
        experts="all",
        routing="sigmoid",
        shared_expert="plain",
        has_choice_bias=True,
        settings=_SIGMOID,
    ),
    "glm4moe": Family(
        norms=("attn_norm", "post_attention_norm"),
        head_norms="each or none",
        experts="all",
        routing="sigmoid",
        shared_expert="plain",
        has_choice_bias=True,
        settings=(*_SIGMOID, "nextn_predict_layers"),
    ),
    "seed_oss": Family(norms=("attn_norm", "post_attention_norm")),
    "ernie4_5": Family("neighbours"),
    "ernie4_5-moe": Family(
        "neighbours",
        experts="all",
        shared_expert="plain",
        has_choice_bias=True,
        settings=(
            *_MIXTURE,
            _SHARED,
            "leading_dense_block_count",
            "expert_shared_count",
            "interleave_moe_layer_step",
        ),
    ),
    "starcoder": Family(
        "none", norm="layer", has_norm_bias=True, activation="gelu", is_gated=False, biases=_PLAIN
    ),
    "orion": Family(norm="layer", has_norm_bias=True),
    "hunyuan-dense": Family(head_norms="each", norms_heads_last=True),
    "hunyuan-moe": Family(
        head_norms="each",
        norms_heads_last=True,
        experts="all",
        shared_expert="plain",
        settings=(*_MIXTURE, _SHARED),
    ),
    "maincoder": Family("neighbours", head_norms="each", norms_heads_last=True),
    "xverse": Family("neighbours"),
}
