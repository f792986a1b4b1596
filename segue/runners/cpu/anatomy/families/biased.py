"""Rows of the table of architectures: those whose attention has linear biases (ALiBi), and their kin."""

from collections.abc import Mapping

from segue.runners.cpu.anatomy.alibi import MOST
from segue.runners.cpu.anatomy.families.keys import FEED_FORWARD, PLAIN
from segue.runners.cpu.anatomy.family import Family

BIASED: Mapping[str, Family] = {
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
}
