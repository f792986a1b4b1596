"""Rows of the table of architectures: newer ones, with windows in the layers that a file lists."""

from collections.abc import Mapping

from segue.runners.cpu.architectures.families.keys import (
    AFTER,
    EXPERTS,
    FEED_FORWARD,
    MIXTURE,
    SCALES,
    WINDOWS,
)
from segue.runners.cpu.architectures.family import Family, Window
from segue.runners.cpu.architectures.layers import ROTATED
from segue.runners.cpu.architectures.parts.limits import LIMITS

WINDOWED: Mapping[str, Family] = {
    # Shared experts, whose gate and up would be one matrix, are refused.
    "granite_swa": Family(
        "neighbours",
        rotated="as listed",
        experts="some",
        has_sinks=True,
        may_bias=("attn_output", *FEED_FORWARD),
        window=Window(0, is_listed=True),
        divides_logits=True,
        has_long_rope=True,
        settings=(*EXPERTS, *WINDOWS[:2], *SCALES, ROTATED),
        needed=(*WINDOWS[:2], "logit_scale"),
        nonzero=("logit_scale",),
    ),
    "spark2_5": Family(
        activation="gelu",
        attention_gate="heads",
        window=Window(0, is_listed=True),
        may_have_factors=False,
        settings=WINDOWS,
        needed=WINDOWS[:2],
    ),
    "maple": Family(
        rotated="only windowed",
        head_norms="each",
        activation="bounded silu",
        experts="all",
        is_untied=True,
        window=Window(0, is_listed=True),
        may_have_factors=False,
        settings=(*MIXTURE, *WINDOWS, LIMITS[0]),
        needed=("expert_feed_forward_length", *WINDOWS[:2], LIMITS[0]),
    ),
    # A window has 4096 tokens in llama.cpp, whatever the file says.
    "smallthinker": Family(
        rotated="last three of four",
        activation="relu",
        experts="all",
        routing="as told renormalised",
        routes_early=True,
        window=Window(4, size=4096, is_full_first=True, is_fixed=True),
        may_have_factors=False,
        settings=(*MIXTURE, "expert_gating_func", *WINDOWS),
        needed=("expert_feed_forward_length", "expert_gating_func"),
    ),
    "muse-glimmer": Family(
        "neighbours",
        rotated="only windowed",
        after=AFTER,
        after_epsilon=1e-8,
        head_norms="each",
        attention_gate="own",
        has_embedding_norm=True,
        is_embedding_norm_plain=True,
        is_untied=True,
        window=Window(4, is_plain=True, is_magnified=True),
        may_have_factors=False,
        settings=(*WINDOWS, "logit_scale", "final_logit_softcapping"),
        needed=(*WINDOWS[:1], "logit_scale"),
    ),
}
