"""Rows of the table of architectures: those whose layers do not all have attention."""

from collections.abc import Mapping

from segue.runners.cpu.anatomy.family import Family
from segue.runners.cpu.anatomy.states.recurrence import KDA_SIZE, NORMED

_SHARED = "expert_shared_feed_forward_length"
_COUNTS = ("expert_count", "expert_used_count")
_EXPERTS = (*_COUNTS, "expert_feed_forward_length", _SHARED)
_SECTIONS = "rope.dimension_sections"
_STATES = (
    "ssm.conv_kernel",
    "ssm.group_count",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
)
_MAMBA1 = ("ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank")
_KIMI = (
    "attention.key_length_mla",
    "attention.kv_lora_rank",
    "attention.value_length_mla",
    KDA_SIZE,
    "rope.dimension_count",
    "ssm.conv_kernel",
)
_HYBRID = (*_STATES, "full_attention_interval", "nextn_predict_layers")
_TAPS = "shortconv.l_cache"
_WKV7 = (
    "attention.decay_lora_rank",
    "attention.iclr_lora_rank",
    "attention.value_residual_mix_lora_rank",
    "wkv.head_size",
)
_GATE_RANK = "attention.gate_lora_rank"
_WKV6 = ("time_decay_extra_dim", "time_mix_extra_dim", "wkv.head_size")
_RESCALE, _SHIFTS = "rescale_every_n_layers", "token_shift_count"
_LFM2_NORM = ("token_embd_norm.weight", "output_norm.weight")

HYBRIDS: Mapping[str, Family] = {
    "qwen3next": Family(
        norms=("attn_norm", "post_attention_norm"),
        head_norms="each",
        experts="all",
        shared_expert="gated",
        attention_gate="joined",
        mixer="delta",
        is_delta_grouped=True,
        settings=(*_EXPERTS, *_HYBRID),
        needed=_STATES,
    ),
    "qwen35": Family(
        sections="interleaved",
        norms=("attn_norm", "post_attention_norm"),
        head_norms="each",
        attention_gate="joined",
        mixer="delta",
        settings=(_SECTIONS, *_HYBRID),
        needed=(_SECTIONS, *_STATES),
    ),
    "qwen35moe": Family(
        sections="interleaved",
        norms=("attn_norm", "post_attention_norm"),
        head_norms="each",
        experts="all",
        shared_expert="gated",
        attention_gate="joined",
        mixer="delta",
        settings=(*_EXPERTS, _SECTIONS, *_HYBRID),
        needed=(_SECTIONS, *_STATES),
    ),
    "lfm2": Family(
        head_norms="each",
        mixer="conv",
        renamed=_LFM2_NORM,
        settings=(_TAPS,),
        needed=(_TAPS,),
    ),
    "lfm2moe": Family(
        head_norms="each",
        experts="all",
        routing="sigmoid renormalised",
        has_choice_bias=True,
        mixer="conv",
        renamed=_LFM2_NORM,
        settings=(*_EXPERTS[:3], "expert_gating_func", "leading_dense_block_count", _TAPS),
        needed=("expert_feed_forward_length", "expert_gating_func", _TAPS),
    ),
    "granitehybrid": Family(
        "neighbours",
        rotated="by setting",
        experts="some",
        shared_expert="plain",
        mixer="mamba",
        may_bias=("attn_output", "ffn_gate", "ffn_up", "ffn_down"),
        divides_logits=True,
        settings=(
            *_COUNTS,
            _SHARED,
            "attention.scale",
            "embedding_scale",
            "residual_scale",
            "logit_scale",
            *_STATES,
        ),
        needed=_STATES,
    ),
    "nemotron_h": Family(
        rotated="none",
        epsilon_of="layer",
        norms=("attn_norm", ""),
        activation="squared relu",
        is_gated=False,
        mixer="mamba",
        layers_are="a part",
        may_bias=("attn_output", "ffn_up", "ffn_down"),
        settings=_STATES,
        needed=_STATES,
    ),
    "nemotron_h_moe": Family(
        rotated="none",
        epsilon_of="layer",
        norms=("attn_norm", ""),
        activation="squared relu",
        is_gated=False,
        experts="all",
        routing="sigmoid",
        shared_expert="plain",
        has_choice_bias=True,
        mixer="mamba",
        layers_are="a part",
        may_bias=("attn_output",),
        settings=(
            *_EXPERTS,
            "expert_gating_func",
            "expert_group_count",
            "expert_group_used_count",
            "expert_shared_count",
            "expert_weights_norm",
            "expert_weights_scale",
            "nextn_predict_layers",
            *_STATES,
        ),
        needed=("expert_feed_forward_length", _SHARED, *_STATES),
    ),
    "falcon-h1": Family(
        mixer="mamba",
        is_mixer_beside=True,
        may_have_factors=False,  # llama.cpp takes the tensor and passes over it
        may_bias=("ffn_gate", "ffn_up", "ffn_down"),
        renamed=(".ffn_norm", ".ffn_norm.weight"),
        settings=_STATES,
        needed=_STATES,
    ),
    "jamba": Family(
        rotated="none",
        experts="by layer",
        routing="softmax",
        mixer="mamba1",
        has_time_norms=True,
        settings=(*_COUNTS, *_MAMBA1),
        needed=_MAMBA1,
    ),
    # llama.cpp makes shares 1 together whatever the file says.
    "kimi-linear": Family(
        rotated="none",
        is_latent=True,
        experts="all",
        routing="sigmoid renormalised",
        shared_expert="plain",
        has_choice_bias=True,
        mixer="kda",
        settings=(
            *_EXPERTS[:3],
            "expert_gating_func",
            "expert_group_count",
            "expert_group_used_count",
            "expert_shared_count",
            "expert_weights_norm",
            "expert_weights_scale",
            "leading_dense_block_count",
            *_KIMI,
        ),
        needed=("expert_feed_forward_length", "expert_gating_func", "expert_shared_count", *_KIMI),
    ),
    "plamo2": Family(
        after=("post_attention_norm", "post_ffw_norm"),
        head_norms="own",
        is_gate_fused=True,
        mixer="plamo",
        may_have_factors=False,  # llama.cpp has none
        renamed=("_norm", "_norm.weight"),
        settings=_STATES,
        needed=(*_MAMBA1, "attention.key_length"),
    ),
    "mamba": Family(
        rotated="none",
        norms=("attn_norm", ""),
        mixer="mamba1",
        layers_are="a mixer",
        settings=(*_MAMBA1, NORMED),
        needed=_MAMBA1,
    ),
    "rwkv6": Family(
        rotated="none",
        norm="layer",
        has_norm_bias=True,
        norms=("attn_norm", "attn_norm_2"),
        activation="squared relu",
        is_gated=False,
        mixer="wkv6",
        is_feed_forward_shifted=True,
        is_output_gated=True,
        has_embedding_norm=True,
        is_untied=True,
        settings=(*_WKV6, _RESCALE, _SHIFTS),
        needed=_WKV6,
    ),
    # llama.cpp reads how often sums are halved, and does not halve them.
    "rwkv6qwen2": Family(
        rotated="none",
        mixer="wkv6",
        is_untied=True,
        settings=(*_WKV6, _RESCALE, _SHIFTS),
        needed=_WKV6,
    ),
    "rwkv7": Family(
        rotated="none",
        norm="layer",
        has_norm_bias=True,
        norms=("attn_norm", "attn_norm_2"),
        activation="squared relu",
        is_gated=False,
        mixer="wkv7",
        is_feed_forward_shifted=True,
        has_embedding_norm=True,
        is_untied=True,
        settings=(*_WKV7, _GATE_RANK, _SHIFTS),
        needed=(*_WKV7, _GATE_RANK),
    ),
    "arwkv7": Family(
        rotated="none",
        mixer="wkv7",
        is_untied=True,
        settings=(*_WKV7, _GATE_RANK, _SHIFTS),
        needed=_WKV7,
    ),
    "mamba2": Family(
        rotated="none",
        norms=("attn_norm", ""),
        mixer="mamba",
        layers_are="a mixer",
        settings=_STATES,
        needed=_STATES,
    ),
}
