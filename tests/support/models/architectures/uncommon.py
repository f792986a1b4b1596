"""What tiny files have of older models, and of text models of those that see."""

from collections.abc import Mapping
from dataclasses import replace

from tests.support.models.tiny_writer import HEADS, HIDDEN, LAYER, WIDTH, Tiny, Value

_FUSED = ("up", "down")
_MIXTURE: dict[str, Value] = {"expert_count": 8, "expert_used_count": 3}
_AFTER = ("post_attention_norm", "post_ffw_norm")
_PLAMO3 = Tiny(
    "plamo3",
    norms=("attn_norm", "ffn_norm", *_AFTER),
    head_size=32,
    is_fused=True,
    head_norms="each",
    feed_forward=_FUSED,
    up_rows=2 * HIDDEN,
    is_tied=True,
    ends=dict.fromkeys(_AFTER, ""),
)
_HUNYUAN_VL = Tiny("hunyuan_vl", head_norms="each", head_size=32, is_tied=True)

# Attention; a matrix instead of it; neither, and wider; nothing at all; attention again.
_DECI = Tiny("deci", layers=5, factors=("rope_freqs",)).with_settings(
    attention__head_count=[4, 4, 0, 0, 4],
    attention__head_count_kv=[2, 0, 0, 0, 4],
    feed_forward_length=[HIDDEN, HIDDEN, 2 * HIDDEN, 0, HIDDEN],
)

_GROK = Tiny(
    "grok",
    norms=("attn_norm", "ffn_norm", "attn_output_norm", "post_ffw_norm"),
    experts=8,
    feeds_beside=True,
    embedding_gain=0.4,
).with_settings(
    **_MIXTURE,
    expert_feed_forward_length=32,
    attn_logit_softcapping=5.0,
    final_logit_softcapping=8.0,
    router_logit_softcapping=2.0,
    attention__output_scale=0.3,
    attention__temperature_length=16,
    embedding_scale=3.0,
    logit_scale=0.7,
    rope__scaling__type="yarn",
    rope__scaling__factor=4.0,
    rope__scaling__original_context_length=128,
    rope__scaling__yarn_ext_factor=1.0,
    rope__scaling__yarn_attn_factor=1.0,
    rope__scaling__yarn_beta_fast=8.0,
    rope__scaling__yarn_beta_slow=1.0,
)

UNCOMMON: Mapping[str, Tiny] = {
    "chatglm": Tiny(
        "chatglm", is_fused=True, qkv_bias=True, feed_forward=_FUSED, up_rows=2 * HIDDEN
    ).with_settings(rope__dimension_count=8, rope__freq_base=50000.0),
    "deci": _DECI,
    "deci with biases": replace(
        _DECI, qkv_bias=True, biases=("attn_output", "ffn_gate", "ffn_up", "ffn_down")
    ),
    "bitnet": Tiny("bitnet", is_tied=True, has_sub_norms=True).with_settings(
        rope__scaling__type="linear", rope__scaling__factor=1.0
    ),
    "openelm": Tiny(
        "openelm", head_size=32, is_fused=True, head_norms="each", is_tied=True
    ).with_settings(
        attention__head_count=[2, 4, 6],
        attention__head_count_kv=[1, 2, 3],
        feed_forward_length=[HIDDEN, 2 * HIDDEN, HIDDEN],
        rope__dimension_count=32,
    ),
    "codeshell": Tiny(
        "codeshell",
        epsilon=LAYER,
        has_norm_bias=True,
        is_fused=True,
        qkv_bias=True,
        feed_forward=_FUSED,
        biases=("attn_output", "ffn_up", "ffn_down"),
    ).with_settings(rope__scaling__type="linear", rope__scaling__factor=1.0),
    "plamo": Tiny("plamo", norms=("attn_norm",)),
    "plamo3": _PLAMO3,
    "plamo3 with windows": _PLAMO3.with_settings(
        attention__sliding_window=20,
        attention__sliding_window_pattern=[True, False, True],
        rope__freq_base=1e6,
        rope__freq_base_swa=1e4,
    ),
    "pangu-embedded": Tiny("pangu-embedded", qkv_bias=True, biases=("attn_output",)),
    "dbrx": Tiny(
        "dbrx", epsilon=LAYER, norms=("attn_norm", "attn_output_norm"), is_fused=True, experts=8
    ).with_settings(**_MIXTURE, attention__clamp_kqv=0.8),
    "olmo, clamped": Tiny("olmo", epsilon=LAYER, has_norm_weights=False).with_settings(
        attention__clamp_kqv=0.5
    ),
    "grok": _GROK,
    "grok, older": replace(
        _GROK,
        norms=(*_GROK.norms[:3], "layer_output_norm"),
        feeds_beside=False,
        settings=_MIXTURE,
    ),
    "arctic": Tiny(
        "arctic",
        norms=("attn_norm", "ffn_norm", "ffn_norm_exps"),
        experts=8,
        feeds_beside=True,
        beside_hidden=WIDTH,
    ).with_settings(**_MIXTURE),
    "chameleon": Tiny(
        "chameleon", head_norms="own", has_head_norm_bias=True, more_tokens=8020
    ).with_settings(swin_norm=False),
    "mistral3, other betas": Tiny("mistral3", head_size=32).with_settings(
        rope__scaling__type="yarn",
        rope__scaling__factor=16.0,
        rope__scaling__original_context_length=64,
        rope__scaling__yarn_beta_fast=4.0,
        rope__scaling__yarn_beta_slow=0.5,
    ),
    "paddleocr": Tiny("paddleocr", head_size=32).with_settings(
        rope__dimension_sections=[4, 5, 3, 4]
    ),
    "hunyuan_vl": _HUNYUAN_VL.with_settings(
        rope__dimension_sections=[4, 4, 4, 4], rope__scaling__type="none", rope__scaling__alpha=50.0
    ),
    "hunyuan_vl without sections": _HUNYUAN_VL,
    # As the converter writes it: no dimension would turn.
    "deepseek2-ocr": Tiny(
        "deepseek2-ocr", key_heads=HEADS, experts=8, shared_hidden=64
    ).with_settings(
        **_MIXTURE,
        leading_dense_block_count=1,
        expert_feed_forward_length=32,
        expert_shared_count=2,
        rope__dimension_count=0,
    ),
    "cogvlm": Tiny("cogvlm", is_fused=True, key_heads=HEADS, has_pictures=True),
}
