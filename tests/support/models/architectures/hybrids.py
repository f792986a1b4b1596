"""What tiny files have whose layers carry states: short convolutions (LFM2), Mamba 1 and 2."""

from collections.abc import Mapping
from dataclasses import replace

from tests.support.models.layers.tiny_latent import TinyLatent
from tests.support.models.tiny_writer import HEADS, HIDDEN, KEY_HEADS, LAYER, Tiny, Value

_AFTER = ("post_attention_norm", "post_ffw_norm")
_MIXTURE: dict[str, Value] = {"expert_count": 8, "expert_used_count": 3}
_LFM2 = Tiny(
    "lfm2", layers=4, head_norms="each", is_tied=True, output_norm="token_embd_norm", mixer="conv"
).with_settings(attention__head_count_kv=[0, KEY_HEADS, 0, KEY_HEADS], shortconv__l_cache=3)
_SSM: dict[str, Value] = {
    "ssm__conv_kernel": 4,
    "ssm__inner_size": 128,
    "ssm__state_size": 32,
    "ssm__time_step_rank": 8,
    "ssm__group_count": 2,
}
_SSM1: dict[str, Value] = {
    "ssm__conv_kernel": 4,
    "ssm__inner_size": 128,
    "ssm__state_size": 16,
    "ssm__time_step_rank": 32,
}
_MAMBA = Tiny(
    "mamba", norms=("attn_norm",), key_heads=0, feed_forward=(), mixer="mamba1"
).with_settings(**_SSM1, attention__head_count=0, feed_forward_length=0)
_JAMBA = Tiny("jamba", layers=4, mixer="mamba1", has_time_norms=True).with_settings(
    **_SSM1, attention__head_count_kv=[0, 0, KEY_HEADS, 0]
)
_GRANITE_H = Tiny("granitehybrid", layers=4, mixer="mamba").with_settings(
    **_SSM,
    attention__head_count_kv=[0, KEY_HEADS, 0, 0],
    rope__scaling__finetuned=False,
    logit_scale=0.5,
    residual_scale=1.3,
    embedding_scale=0.5,
    attention__scale=0.1,
)
_NEMOTRON_H = Tiny(
    "nemotron_h",
    layers=5,
    norms=("attn_norm",),
    feed_forward=("up", "down"),
    mixer="mamba",
    is_alone=True,
    biases=("ffn_up", "ffn_down"),
).with_settings(
    **_SSM,
    attention__head_count_kv=[0, 0, KEY_HEADS, 0, 0],
    feed_forward_length=[0, HIDDEN, 0, 0, HIDDEN],
    attention__layer_norm_epsilon=1e-5,
)

# llama.cpp turns nothing, for ever, if the first layer counts no heads of queries, as converted files have it.
_PLAMO2 = Tiny(
    "plamo2",
    layers=4,
    norms=("attn_norm", "ffn_norm", *_AFTER),
    ends=dict.fromkeys(_AFTER, ""),
    is_fused=True,
    head_norms="own",
    feed_forward=("up", "down"),
    up_rows=2 * HIDDEN,
    mixer="plamo",
).with_settings(
    **{**_SSM, "ssm__group_count": 0},
    attention__head_count=HEADS,
    attention__head_count_kv=[0, KEY_HEADS, 0, KEY_HEADS],
)

_RWKV7: dict[str, Value] = {
    "embedding_length": 128,
    "feed_forward_length": 192,
    "attention__head_count": 0,
    "wkv__head_size": 64,
    "attention__decay_lora_rank": 32,
    "attention__iclr_lora_rank": 64,
    "attention__value_residual_mix_lora_rank": 32,
    "attention__gate_lora_rank": 96,
}
_ARWKV7 = Tiny("arwkv7", mixer="rwkv adapted", key_heads=0).with_settings(
    **_RWKV7, token_shift_count=1
)
_RWKV6: dict[str, Value] = {
    "embedding_length": 128,
    "feed_forward_length": 192,
    "attention__head_count": 0,
    "wkv__head_size": 64,
    "time_mix_extra_dim": 32,
    "time_decay_extra_dim": 64,
}
_OF_RWKV6 = Tiny(
    "rwkv6", epsilon=LAYER, has_norm_bias=True, key_heads=0, mixer="rwkv6"
).with_settings(**_RWKV6)
_RWKV6QWEN2 = Tiny("rwkv6qwen2", mixer="rwkv6 adapted", key_heads=0).with_settings(
    **_RWKV6, token_shift_count=1
)

HYBRIDS: Mapping[str, Tiny] = {
    "lfm2": _LFM2,
    "lfm2moe": replace(
        _LFM2, architecture="lfm2moe", layers=5, experts=8, choice_bias=True
    ).with_settings(
        **_MIXTURE, attention__head_count_kv=[0, KEY_HEADS, 0, KEY_HEADS, 0], shortconv__l_cache=4,
        expert_feed_forward_length=32, expert_gating_func=2, leading_dense_block_count=1,
    ),
    "granitehybrid": _GRANITE_H,
    "granitehybrid, experts, rotated": replace(
        _GRANITE_H, experts=8, shared_hidden=64
    ).with_settings(
        **_MIXTURE, expert_shared_feed_forward_length=64, rope__scaling__finetuned=True
    ),
    "nemotron_h": _NEMOTRON_H,
    "nemotron_h_moe": replace(
        _NEMOTRON_H, architecture="nemotron_h_moe", experts=8, shared_hidden=64, choice_bias=True
    ).with_settings(
        **_MIXTURE, feed_forward_length=[0, 32, 0, 0, 32], expert_feed_forward_length=32,
        expert_shared_feed_forward_length=64, expert_weights_norm=True, expert_weights_scale=2.5,
    ),
    "falcon-h1": Tiny(
        "falcon-h1", mixer="mamba beside", ends={"ffn_norm": ""}
    ).with_settings(**_SSM),
    "falcon-h1, no norm": Tiny(
        "falcon-h1", mixer="mamba beside", ends={"ffn_norm": ""}, has_mixer_norm=False
    ).with_settings(**_SSM),
    "jamba": _JAMBA,
    "jamba with experts": replace(_JAMBA, experts=8, expert_step=2).with_settings(**_MIXTURE),
    "kimi-linear": Tiny(
        "kimi-linear", layers=5, mixer="kda", latent=TinyLatent(query_rank=0), experts=8,
        shared_hidden=32, choice_bias=True,
    ).with_settings(
        **_MIXTURE, attention__head_count_kv=[0, 0, 1, 0, 1], ssm__conv_kernel=4, kda__head_dim=32,
        attention__value_length=16, leading_dense_block_count=1, expert_feed_forward_length=32,
        expert_shared_count=1, expert_gating_func=2, expert_weights_scale=2.446,
        expert_group_count=1, expert_group_used_count=1,
    ),
    "plamo2": _PLAMO2,
    "mamba": _MAMBA,
    "mamba, normed, of an odd rank": _MAMBA.with_settings(
        ssm__time_step_rank=48, ssm__state_size=32, ssm__dt_b_c_rms=True
    ),
    "mamba2": Tiny(
        "mamba2", norms=("attn_norm",), key_heads=0, feed_forward=(), mixer="mamba"
    ).with_settings(**_SSM, attention__head_count=0, feed_forward_length=0),
    "rwkv6": _OF_RWKV6.with_settings(rescale_every_n_layers=2),
    "rwkv6, shares apart": replace(_OF_RWKV6, mixer="rwkv6 apart").with_settings(wkv__head_size=32),
    "rwkv6qwen2": replace(_RWKV6QWEN2, qkv_bias=True).with_settings(
        wkv__head_size=32, attention__head_count_kv=2
    ),
    "rwkv6qwen2, no biases": _RWKV6QWEN2.with_settings(rescale_every_n_layers=2),
    "rwkv7": Tiny(
        "rwkv7", epsilon=LAYER, has_norm_bias=True, key_heads=0, mixer="rwkv"
    ).with_settings(**_RWKV7),
    "arwkv7": _ARWKV7,
    "arwkv7, no gate, no norm": replace(_ARWKV7, has_mixer_norm=False).with_settings(
        attention__gate_lora_rank=0
    ),
}  # fmt: skip
