"""The table of architectures: how the models of each architecture name in GGUF files compute.

To add an architecture, add a row; family.py has its columns. What varies between files of one architecture is read from
the file: measures.py, layers.py.
"""

from collections.abc import Mapping

from segue.runners.cpu.anatomy.family import Family, Window
from segue.runners.cpu.anatomy.hybrids import HYBRIDS
from segue.runners.cpu.anatomy.latent_models import LATENTS

_EXPERTS = ("expert_count", "expert_used_count")
_GROUPS = ("expert_group_count", "expert_group_used_count")
_WINDOWS = (
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "rope.freq_base_swa",
)
_OF_WINDOWS = ("attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa")
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
        window=Window(6, base=10000.0, is_plain=True, is_magnified=True),
        wide_scale=62,
        is_embedding_scaled=True,
        settings=(*_WINDOWS, "final_logit_softcapping"),
    ),
    "gemma4": Family(
        after=_AFTER,
        head_norms="each",
        norms_values=True,
        activation="gelu",
        experts="some",
        shared_expert="dense",
        window=Window(0, base=10000.0, is_plain=True, is_magnified=True, is_listed=True),
        query_scale=1.0,
        is_embedding_scaled=True,
        has_layer_scales=True,
        needs_factors=True,
        settings=(
            *_MIXTURE,
            *_WINDOWS,
            *_OF_WINDOWS,
            "attention.shared_kv_layers",
            "embedding_length_per_layer_input",
            "final_logit_softcapping",
        ),
        needed=(*_WINDOWS[:2], *_OF_WINDOWS[:2]),
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
        head_norms="own or none",
        residuals="by norm",
        settings=("use_parallel_residual",),
    ),
    "olmo": Family("neighbours", norm="layer", has_norm_weights=False),
    "olmo2": Family(
        norms=("", ""),
        after=_AFTER,
        head_norms="whole",
        window=Window(4, is_plain=True),
        settings=_WINDOWS,
    ),
    "granite": Family(
        "neighbours",
        rotated="by setting",
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
        head_norms="own or none",
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
    "apertus": Family(
        head_norms="each",
        activation="xielu",
        is_gated=False,
        may_bias=("attn_output",),
        has_long_rope=True,
    ),
    "llama4": Family(
        "neighbours",
        rotated="three of four",
        head_norms="unweighted",
        norms_heads_last=True,
        experts="all",
        routing="sigmoid before",
        shared_expert="one",
        window=Window(4, size=8192, is_chunked=True),
        temperature=0.1,
        settings=(*_MIXTURE, *_WINDOWS, "interleave_moe_layer_step"),
        needed=("interleave_moe_layer_step", "expert_feed_forward_length"),
    ),
    "afmoe": Family(
        rotated="three of four",
        after=_AFTER,
        head_norms="each",
        experts="all",
        routing="sigmoid",
        shared_expert="plain",
        has_choice_bias=True,
        attention_gate="own",
        window=Window(4),
        is_embedding_scaled=True,
        settings=(*_SIGMOID, *_WINDOWS),
    ),
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
    # A base for layers with a window is refused: llama.cpp reads it, and turns them by the base of all layers.
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
    "bailingmoe2": Family(
        head_norms="each",
        experts="all",
        routing="sigmoid",
        shared_expert="plain",
        has_choice_bias=True,
        settings=(*_SIGMOID, _SHARED, "nextn_predict_layers"),
        needed=("expert_gating_func",),
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
    **LATENTS,
    **HYBRIDS,
}
