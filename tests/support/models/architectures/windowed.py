"""A tiny GGUF of every newer architecture with windows in the layers that a file lists."""

from collections.abc import Mapping
from dataclasses import replace

from tests.support.models.tiny_writer import Tiny, Value

_LISTED: dict[str, Value] = {
    "attention__sliding_window": 20,
    "attention__sliding_window_pattern": [True, False, True],
}
_YARN: dict[str, Value] = {
    "rope__scaling__type": "yarn",
    "rope__scaling__factor": 4.0,
    "rope__scaling__original_context_length": 128,
}
_GRANITE_SWA = Tiny("granite_swa", has_sinks=True).with_settings(
    **_LISTED, logit_scale=0.5, residual_scale=1.3, embedding_scale=0.5, attention__scale=0.1
)
_SMALLTHINKER = Tiny("smallthinker", layers=5, experts=8).with_settings(
    expert_count=8, expert_used_count=3, expert_feed_forward_length=32
)

WINDOWED: Mapping[str, Tiny] = {
    "granite_swa": _GRANITE_SWA.with_settings(**_YARN, attention__rope_pattern=[True, False, True]),
    "granite_swa with experts": replace(_GRANITE_SWA, experts=8).with_settings(
        expert_count=8, expert_used_count=3
    ),
    "spark2_5": Tiny("spark2_5", gate_rows=4).with_settings(
        **_LISTED, **_YARN, rope__freq_base=1e6, rope__freq_base_swa=1e4
    ),
    "maple": Tiny("maple", head_norms="each", head_size=32, experts=8).with_settings(
        **_LISTED,
        **_YARN,
        expert_count=8,
        expert_used_count=3,
        expert_feed_forward_length=32,
        rope__freq_base_swa=1e6,
        swiglu_clamp_exp=[0.4, 0.0, 0.9],
    ),
    # Windows have 4096 tokens, whatever is said here; by them it is told which layers turn.
    "smallthinker": _SMALLTHINKER.with_settings(
        expert_gating_func=2, attention__sliding_window=20, rope__freq_base_swa=1e6, **_YARN
    ),
    "smallthinker without windows": replace(_SMALLTHINKER, is_tied=True).with_settings(
        expert_gating_func=1
    ),
    "muse-glimmer": Tiny(
        "muse-glimmer",
        norms=("attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"),
        head_norms="each",
        head_size=32,
        is_attention_gated=True,
    ).with_settings(
        **_LISTED,
        attention__layer_norm_rms_epsilon=0.3,  # norms of outputs have another
        logit_scale=0.5,
        final_logit_softcapping=8.0,
        rope__scaling__type="linear",
        rope__scaling__factor=8.0,
    ),
}
