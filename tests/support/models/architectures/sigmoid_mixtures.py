"""What tiny files have whose experts have shares by sigmoid: later mixtures."""

from collections.abc import Mapping
from dataclasses import replace

from tests.support.models.layers.tiny_latent import TinyLatent
from tests.support.models.tiny_writer import HEADS, LAYER, RMS, Tiny, Value

_MIXTURE: dict[str, Value] = {
    "expert_count": 8,
    "expert_used_count": 3,
    "expert_feed_forward_length": 32,
    "expert_weights_norm": True,
    "leading_dense_block_count": 1,
}
_COHERE = Tiny(
    "cohere2moe", epsilon=LAYER, norms=("attn_norm",), layers=5, experts=8
).with_settings(**_MIXTURE, logit_scale=0.5, attention__sliding_window=20)
_STEP = Tiny(
    "step35", layers=4, head_norms="each", experts=8, shared_hidden=64, choice_bias=True,
    gate_rows=HEADS,
).with_settings(
    **_MIXTURE, expert_shared_feed_forward_length=64, expert_weights_scale=2.5,
    attention__head_count=[HEADS, 6, HEADS, 6], attention__sliding_window=20,
    attention__sliding_window_pattern=[False, True, False, True], rope__freq_base=1e5,
    swiglu_clamp_exp=[0.0, 0.3, 0.0, 0.2], swiglu_clamp_shexp=[0.4, 0.0, 0.0, 0.3],
)  # fmt: skip
_MIMO = Tiny(
    "mimo2", head_size=48, value_size=32, experts=8, choice_bias=True,
    has_windowed_sinks=True,
).with_settings(
    **_MIXTURE, expert_gating_func=2, attention__head_count_kv=[1, 2, 1],
    attention__sliding_window=20, attention__sliding_window_pattern=[False, True, False],
    rope__dimension_count=16, rope__freq_base=1e6,
)  # fmt: skip
_LING = Tiny(
    "bailingmoe3", layers=5, mixer="kda whole", latent=TinyLatent(), experts=8, shared_hidden=32,
    choice_bias=True, gate_rows=HEADS,
).with_settings(
    **_MIXTURE, attention__head_count_kv=[0, 0, 1, 0, 1], ssm__conv_kernel=4, kda__head_dim=32,
    kda__gate_lower_bound=-1.5, kda__safe_gate=True, expert_shared_count=1, expert_gating_func=2,
    expert_weights_scale=2.5, expert_group_count=4, expert_group_used_count=2,
)  # fmt: skip
_LAGUNA = Tiny(
    "laguna", head_norms="each", experts=8, shared_hidden=64, choice_bias=True
).with_settings(
    **_MIXTURE, expert_shared_feed_forward_length=64, expert_weights_scale=2.5,
    rope__freq_base=5e5, rope__dimension_count=8, rope__scaling__type="yarn",
    rope__scaling__factor=4.0, rope__scaling__original_context_length=128,
    rope__scaling__yarn_beta_fast=64.0,
)  # fmt: skip

SIGMOID_MIXTURES: Mapping[str, Tiny] = {
    "hy_v3": Tiny(
        "hy_v3", head_norms="each", experts=8, shared_hidden=32, choice_bias=True,
        ends={"exp_probs_b": ""},
    ).with_settings(
        **_MIXTURE, expert_shared_feed_forward_length=32, expert_gating_func=2,
        expert_weights_scale=2.5,
    ),
    "cohere2moe": _COHERE,
    "cohere2moe, shared expert, RMS norms, drafts": replace(
        _COHERE, epsilon=RMS, shared_hidden=64, next_layers=1, is_tied=True
    ).with_settings(
        expert_weights_norm=False, expert_weights_scale=1.5, expert_shared_count=2,
        attention__sliding_window_pattern=[True, False, True, True, False, False],
        nextn_predict_layers=1,
    ),
    "laguna": replace(_LAGUNA, is_attention_gated=True, is_tied=True),
    "laguna with windows, gates of heads": replace(
        _LAGUNA, layers=5, gate_rows=HEADS
    ).with_settings(
        attention__head_count=[HEADS, 6, 6, 6, HEADS], attention__sliding_window=20,
        rope__freq_base_swa=1e4, rope__dimension_count_swa=16, expert_gating_func=2,
    ),
    "step35": _STEP,
    "step35, factors, drafts": replace(
        _STEP, head_norms="", factors=("rope_freqs",), next_layers=1
    ).with_settings(
        attention__head_count=HEADS,
        attention__sliding_window_pattern=[False, True, False, True, False],
        rope__freq_base_swa=2e4, swiglu_clamp_exp=0.2, swiglu_clamp_shexp=0.0,
        nextn_predict_layers=1, moe_every_n_layers=1,
    ),
    "mimo2": _MIMO,
    "mimo2, one matrix, drafts": replace(
        _MIMO, is_fused=True, has_windowed_sinks=False, next_layers=1, is_draft_dense=True
    ).with_settings(
        attention__head_count_kv=2, attention__value_scale=0.7, rope__freq_base_swa=2e4,
        attention__sliding_window_pattern=[False, True, True, False], nextn_predict_layers=1,
    ),
    "bailingmoe3": _LING,
    "bailingmoe3, no rank of queries, limits": replace(
        _LING, latent=TinyLatent(query_rank=0)
    ).with_settings(swiglu_clamp_exp=0.3, swiglu_clamp_shexp=[0.0, 0.4, 0.0, 0.0, 0.3]),
}  # fmt: skip
