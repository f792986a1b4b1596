"""Rows of the table of architectures: those whose layers do not all have attention."""

from collections.abc import Mapping

from segue.runners.cpu.anatomy.family import Family

_EXPERTS = (
    "expert_count",
    "expert_used_count",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
)
_SECTIONS = "rope.dimension_sections"
_DELTA = (
    "ssm.conv_kernel",
    "ssm.group_count",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
)
_HYBRID = (*_DELTA, "full_attention_interval", "nextn_predict_layers")

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
        needed=_DELTA,
    ),
    "qwen35": Family(
        sections="interleaved",
        norms=("attn_norm", "post_attention_norm"),
        head_norms="each",
        attention_gate="joined",
        mixer="delta",
        settings=(_SECTIONS, *_HYBRID),
        needed=(_SECTIONS, *_DELTA),
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
        needed=(_SECTIONS, *_DELTA),
    ),
}
