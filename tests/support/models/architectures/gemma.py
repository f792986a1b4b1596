"""A tiny GGUF of Gemma 3n and of every kind of Gemma 4."""

import math
from collections.abc import Mapping
from dataclasses import replace

from tests.support.models.tiny_writer import HIDDEN, Tiny

_AFTER = ("post_attention_norm", "post_ffw_norm")
_GEMMA4 = Tiny(
    "gemma4",
    norms=("attn_norm", "ffn_norm", *_AFTER),
    head_size=64,
    head_norms="each",
    factors=("rope_freqs",),
    is_tied=True,
    lacks_values=True,
    has_layer_scales=True,
).with_settings(
    attention__sliding_window=20,
    attention__sliding_window_pattern=[True, True, False],
    attention__key_length_swa=32,
    attention__value_length_swa=32,
    attention__head_count_kv=[2, 2, 1],
    attention__shared_kv_layers=0,
    embedding_length_per_layer_input=0,
    rope__dimension_count=64,
    rope__dimension_count_swa=32,
    rope__freq_base=1e6,
    rope__freq_base_swa=1e4,
    final_logit_softcapping=8.0,
)
_GEMMA4_E = replace(_GEMMA4, layers=5, key_heads=1, lacks_values=False).with_settings(
    attention__sliding_window_pattern=[True, True, False, True, False],
    attention__head_count_kv=1,
    attention__shared_kv_layers=2,
    embedding_length_per_layer_input=32,
    feed_forward_length=[HIDDEN, HIDDEN, HIDDEN, 2 * HIDDEN, 2 * HIDDEN],
)
# Layers from the 21st on have no keys; of those before, the last two have a window and none. With so many layers what
# each adds is small, as in real files: else the least difference would grow from layer to layer.
_GEMMA3N = Tiny(
    "gemma3n",
    norms=("attn_norm", "ffn_norm", *_AFTER),
    layers=22,
    head_norms="each",
    is_tied=True,
    has_unused_keys=True,
    has_streams=True,
    means={"attn_q_norm": 0.4, **dict.fromkeys(_AFTER, 0.4)},
).with_settings(
    activation_sparsity_scale=[1.6448533535] * 10 + [-math.inf] * 12,
    altup__active_idx=0,
    altup__num_inputs=4,
    attention__shared_kv_layers=2,
    attention__sliding_window=20,
    attention__sliding_window_pattern=[i % 2 == 0 for i in range(22)],
    embedding_length_per_layer_input=256,
    rope__freq_base=1e6,
)

GEMMAS: Mapping[str, Tiny] = {
    "gemma3n": _GEMMA3N,
    "gemma4": _GEMMA4,
    "gemma4, embeddings of layers": _GEMMA4_E,
    "gemma4 with experts": replace(_GEMMA4, experts=8, has_dense_beside=True).with_settings(
        expert_count=8, expert_used_count=3, expert_feed_forward_length=32
    ),
}
# As deep as E4B, with its windows.
E4B = replace(_GEMMA3N, layers=35).with_settings(
    activation_sparsity_scale=[1.6448533535] * 10 + [-math.inf] * 25,
    attention__shared_kv_layers=15,
    attention__sliding_window_pattern=[i % 5 < 4 for i in range(35)],
    feed_forward_length=[HIDDEN] * 35,
)
