"""A tiny GGUF of every architecture whose residual is taken up again."""

from collections.abc import Mapping
from dataclasses import replace

from tests.support.models.tiny_writer import Tiny

_NANBEIGE = Tiny("nanbeige", factors=("rope_freqs",)).with_settings(num_loops=2)

LOOPED: Mapping[str, Tiny] = {
    "nanbeige": _NANBEIGE,
    "nanbeige, loops not normed": replace(_NANBEIGE, is_tied=True, layers=2).with_settings(
        num_loops=3, skip_loop_final_norm=True
    ),
    "hrm_text": Tiny(
        "hrm_text", layers=4, has_norm_weights=False, is_attention_gated=True, has_stacks=True
    ).with_settings(
        block_count=12,  # all passes together
        hrm__layers_per_stack=2,
        hrm__h_cycles=2,
        hrm__l_cycles=2,
        hrm__prefix_lm=True,
        embedding_scale=0.7,
    ),
    "talkie": Tiny(
        "talkie", has_norm_weights=False, head_norms="gains", has_layer_scales=True
    ).with_settings(logit_scale=2.0),
}
