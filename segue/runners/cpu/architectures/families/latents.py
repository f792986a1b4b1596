"""Rows of the table of architectures: those with latent attention."""

from collections.abc import Mapping
from dataclasses import replace

from segue.runners.cpu.architectures.families.keys import SIGMOID
from segue.runners.cpu.architectures.family import Family

_RANKS = ("attention.kv_lora_rank", "attention.q_lora_rank")
_NEEDED = ("attention.kv_lora_rank", "rope.dimension_count")
_MIXTURE = Family(
    "neighbours",
    is_latent=True,
    experts="some",
    routing="as told",
    shared_expert="plain",
    has_choice_bias=True,
    settings=(
        *SIGMOID,
        *_RANKS,
        "attention.key_length_mla",
        "attention.value_length_mla",
        "attention.temperature_scale",
        "attention.temperature_length",
        "nextn_predict_layers",
        "rope.scaling.yarn_log_multiplier",
    ),
    needed=_NEEDED,
)

LATENTS: Mapping[str, Family] = {
    "deepseek2": replace(_MIXTURE, drafts_by="norm"),
    "mistral4": _MIXTURE,
    "minicpm3": Family(
        is_latent=True,
        has_long_rope=True,
        embedding_factor=12.0,
        depth_scale=1.4,
        logit_width=256,
        settings=_RANKS,
        needed=(*_RANKS, "rope.dimension_count"),
    ),
    "plm": Family(
        "neighbours",
        is_latent=True,
        activation="squared relu",
        is_gated=False,
        is_tied=True,
        settings=_RANKS[:1],
        needed=_NEEDED,
    ),
}
