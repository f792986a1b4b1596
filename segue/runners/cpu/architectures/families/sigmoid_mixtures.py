"""Rows of the table of architectures: later mixtures of experts, whose shares are sigmoids."""

from collections.abc import Mapping

from segue.runners.cpu.architectures.families.keys import (
    DENSE_FIRST,
    GROUPS,
    MIXTURE,
    OF_WINDOWS,
    SHARED,
    SIGMOID,
    WINDOWS,
)
from segue.runners.cpu.architectures.family import Family, Window
from segue.runners.cpu.architectures.parts.limits import LIMITS
from segue.runners.cpu.architectures.states.recurrence import KDA_LEAST, KDA_SAFE, KDA_SIZE

_GATING, _NORMED = "expert_gating_func", "expert_weights_norm"
_DRAFTS = "nextn_predict_layers"
_DENSE = "leading_dense_block_count"
_SCALED = (_GATING, _NORMED, "expert_weights_scale")
_LATENT = (
    "attention.key_length_mla",
    "attention.kv_lora_rank",
    "attention.value_length_mla",
    KDA_LEAST,
    KDA_SIZE,
    "rope.dimension_count",
    "ssm.conv_kernel",
)

SIGMOID_MIXTURES: Mapping[str, Family] = {
    # Which layers have experts is told by their tensors, and a count of shared experts is passed over.
    "hy_v3": Family(
        head_norms="each",
        experts="by layer",
        routing="sigmoid",
        shared_expert="plain",
        has_choice_bias=True,
        renamed=(".exp_probs_b", ".exp_probs_b.bias"),
        drafts_by="norm",
        settings=(*DENSE_FIRST, SHARED, _GATING, _NORMED, _DRAFTS),
        needed=(MIXTURE[2], SHARED),
    ),
    # A base for layers with a window is refused: llama.cpp reads it, and turns them by the base of all layers.
    "cohere2moe": Family(
        "neighbours",
        rotated="windowed or dense",
        norm="layer",
        may_norm_by_rms=True,
        norms=("attn_norm", ""),
        residuals="parallel",
        experts="all",
        routing="sigmoid",
        shared_expert="plain",
        halves_experts=True,
        window=Window(4, is_full_first=True),
        drafts_by="norm",
        settings=(*DENSE_FIRST, SHARED, _GATING, _NORMED, *WINDOWS[:2], "logit_scale", _DRAFTS),
        needed=(MIXTURE[2], WINDOWS[0], "logit_scale"),
    ),
    # Whose files have the width of the shared expert.
    "laguna": Family(
        head_norms="each",
        experts="all",
        routing="sigmoid",
        shared_expert="plain",
        has_choice_bias=True,
        attention_gate="own or heads",
        gates_by_softplus=True,
        window=Window(4, is_full_first=True, is_plain=True),
        may_have_factors=False,
        settings=(*DENSE_FIRST, SHARED, _GATING, _NORMED, *WINDOWS, OF_WINDOWS[2]),
        needed=(MIXTURE[2],),
    ),
    # Here too tensors tell which layers have experts.
    "step35": Family(
        turns_half=True,
        head_norms="each or none",
        activation="limited silu",
        experts="by layer",
        routing="sigmoid",
        shared_expert="plain",
        has_choice_bias=True,
        attention_gate="heads",
        is_untied=True,
        window=Window(0, base=10000.0, is_plain=True, is_magnified=True, is_listed=True),
        drafts_by="sum",
        settings=(
            *MIXTURE,
            SHARED,
            *_SCALED,
            _DENSE,
            "moe_every_n_layers",
            *WINDOWS,
            OF_WINDOWS[2],
            *LIMITS,
            _DRAFTS,
        ),
        needed=(MIXTURE[2], SHARED, *WINDOWS[:2]),
    ),
    # llama.cpp passes over biases of queries, keys and values.
    "mimo2": Family(
        experts="by layer",
        routing="sigmoid renormalised",
        has_choice_bias=True,
        may_have_sinks=True,
        has_head_biases=False,
        may_narrow_values=True,
        is_untied=True,
        window=Window(0, base=10000.0, is_plain=True, is_magnified=True, is_listed=True),
        may_have_factors=False,
        drafts_by="sum",
        settings=(
            *MIXTURE,
            _GATING,
            _NORMED,
            _DENSE,
            *GROUPS,
            *WINDOWS,
            "attention.value_scale",
            _DRAFTS,
        ),
        needed=(MIXTURE[2], "attention.value_length", *WINDOWS[:2]),
    ),
    "bailingmoe3": Family(
        "neighbours",
        is_latent=True,
        activation="limited silu",
        experts="all",
        routing="sigmoid",
        shared_expert="plain",
        has_choice_bias=True,
        attention_gate="heads",
        mixer="kda",
        may_have_factors=False,
        drafts_by="norm",
        settings=(*SIGMOID, SHARED, *LIMITS, _DRAFTS, *_LATENT, "attention.q_lora_rank", KDA_SAFE),
        needed=(MIXTURE[2], _GATING, "expert_shared_count", *_LATENT),
    ),
}
