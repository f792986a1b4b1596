"""Tiny models whose attention has linear biases (ALiBi), and their kin."""

from collections.abc import Mapping
from dataclasses import replace

from tests.support.models.tiny_writer import HEADS, LAYER, Tiny

_FEED_FORWARD = ("ffn_gate", "ffn_up", "ffn_down")
_PLAIN = ("attn_output", "ffn_up", "ffn_down")
_MPT = Tiny("mpt", epsilon=LAYER, is_fused=True, feed_forward=("up", "down"), is_tied=True)
_BIASED_MPT = replace(_MPT, has_norm_bias=True, qkv_bias=True, biases=_PLAIN)

ALIBI: Mapping[str, Tiny] = {
    "bloom": Tiny(
        "bloom",
        epsilon=LAYER,
        has_norm_bias=True,
        is_fused=True,
        key_heads=HEADS,
        qkv_bias=True,
        feed_forward=("up", "down"),
        biases=_PLAIN,
        is_tied=True,
        has_embedding_norm=True,
    ),
    "baichuan": Tiny("baichuan", key_heads=HEADS),  # so few layers have no positions
    # Slopes of heads beyond a power of two are between those of the others.
    "refact": Tiny("refact", heads=7, key_heads=1, head_size=32),
    "jais": Tiny(
        "jais",
        epsilon=LAYER,
        has_norm_bias=True,
        is_fused=True,
        key_heads=HEADS,
        qkv_bias=True,
        biases=("attn_output", *_FEED_FORWARD),
    ).with_settings(attention__max_alibi_bias=5.0),
    "jais2": Tiny(
        "jais2",
        epsilon=LAYER,
        has_norm_bias=True,
        qkv_bias=True,
        feed_forward=("up", "down"),
        biases=_PLAIN,
    ),
    "mpt": _MPT.with_settings(attention__max_alibi_bias=8.0, attention__clamp_kqv=0.5),
    "mpt with biases, learned positions": replace(_BIASED_MPT, learned_positions=512),
    "mpt with biases, bounded": _BIASED_MPT.with_settings(
        attention__max_alibi_bias=8.0, attention__clamp_kqv=0.5
    ),
}
# Not among the others: llama.cpp computes it only row by row.
NORMED_MPT = replace(_BIASED_MPT, key_heads=HEADS, head_norms="whole").with_settings(
    attention__max_alibi_bias=8.0, attention__clamp_kqv=0.5
)
