"""Rows of the table of architectures: those whose residual is taken up again, by loops, stacks or from embeddings."""

from collections.abc import Mapping

from segue.runners.cpu.architectures.family import Family
from segue.runners.cpu.architectures.parts.passes import (
    HIGH_CYCLES,
    LOOPS,
    LOW_CYCLES,
    STACK,
    UNNORMED,
)

LOOPED: Mapping[str, Family] = {
    "nanbeige": Family(
        "neighbours",
        passes="loops",
        settings=(LOOPS, UNNORMED),
    ),
    # Of a prompt no token sees those after it, whatever the file says (prefix_lm), as in llama.cpp.
    "hrm_text": Family(
        has_norm_weights=False,
        attention_gate="own",
        passes="stacks",
        may_have_factors=False,
        settings=("embedding_scale", STACK, HIGH_CYCLES, LOW_CYCLES, "hrm.prefix_lm"),
        needed=(STACK, HIGH_CYCLES, LOW_CYCLES),
    ),
    "talkie": Family(
        has_norm_weights=False,
        head_norms="gains",
        norms_heads_last=True,
        has_embedding_norm=True,
        adds_embeddings=True,
        is_untied=True,
        may_have_factors=False,
        settings=("logit_scale",),
        needed=("logit_scale",),
    ),
}
