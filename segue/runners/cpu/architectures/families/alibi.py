"""Rows of the table of architectures: those whose attention has linear biases (ALiBi), and their kin."""

from collections.abc import Mapping

from segue.runners.cpu.architectures.families.keys import CLAMP, FEED_FORWARD, PLAIN
from segue.runners.cpu.architectures.family import Family
from segue.runners.cpu.architectures.parts.alibi import MOST

ALIBI: Mapping[str, Family] = {
    "bloom": Family(
        rotated="none",
        max_bias=8.0,
        norm="layer",
        has_norm_bias=True,
        activation="gelu",
        is_gated=False,
        has_embedding_norm=True,
        biases=PLAIN,
    ),
    # Models of other depths than these two have neither, as in llama.cpp.
    "baichuan": Family(
        "neighbours",
        rotated="by depth",
        turned_depth=32,
        max_bias=8.0,
        biased_depth=40,
        is_untied=True,
        may_have_factors=False,
    ),
    "refact": Family(rotated="none", max_bias=8.0),
    "jais": Family(
        rotated="none",
        norm="layer",
        has_norm_bias=True,
        biases=("attn_output", *FEED_FORWARD),
        is_untied=True,
        is_query_scaled_whole=True,
        settings=(MOST,),
    ),
    # Its positions turn.
    "jais2": Family(
        norm="layer",
        has_norm_bias=True,
        activation="squared relu",
        is_gated=False,
        biases=PLAIN,
        may_have_factors=False,
    ),
    "mpt": Family(
        rotated="none",
        may_learn_positions=True,
        norm="layer",
        may_have_norm_bias=True,
        head_norms="whole or none",
        activation="gelu",
        is_gated=False,
        may_bias=PLAIN,
        settings=(CLAMP, MOST),
    ),
}
