"""Tiny models whose attention has linear biases (ALiBi), and their kin."""

from collections.abc import Mapping

from tests.support.models.tiny_writer import HEADS, LAYER, Tiny

_FEED_FORWARD = ("ffn_gate", "ffn_up", "ffn_down")

BIASED: Mapping[str, Tiny] = {
    "bloom": Tiny(
        "bloom",
        epsilon=LAYER,
        has_norm_bias=True,
        is_fused=True,
        key_heads=HEADS,
        qkv_bias=True,
        feed_forward=("up", "down"),
        biases=("attn_output", "ffn_up", "ffn_down"),
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
}
