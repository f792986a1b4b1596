"""A tiny GGUF of every architecture: what its file has."""

from collections.abc import Mapping
from dataclasses import replace

from tests.support.models.architectures.alibi import ALIBI
from tests.support.models.architectures.gemma import E4B, GEMMAS
from tests.support.models.architectures.hybrids import HYBRIDS
from tests.support.models.architectures.looped import LOOPED
from tests.support.models.architectures.sigmoid_mixtures import SIGMOID_MIXTURES
from tests.support.models.architectures.uncommon import UNCOMMON
from tests.support.models.architectures.windowed import WINDOWED
from tests.support.models.layers.tiny_latent import TinyLatent
from tests.support.models.tiny_writer import HEADS, HIDDEN, LAYER, WIDTH, Tiny, Value

_AFTER = ("post_attention_norm", "post_ffw_norm")

_PLAIN = Tiny(
    "gpt2",
    epsilon=LAYER,
    has_norm_bias=True,
    qkv_bias=True,
    feed_forward=("up", "down"),
    biases=("attn_output", "ffn_up", "ffn_down"),
)
_LLAMA = Tiny("llama")
_MIXTURE: dict[str, Value] = {"expert_count": 8, "expert_used_count": 3}
_GEMMA3 = Tiny(
    "gemma3",
    norms=("attn_norm", "ffn_norm", *_AFTER),
    head_size=32,
    head_norms="each",
    is_tied=True,
)
_OLMO2 = Tiny("olmo2", norms=_AFTER, head_norms="whole")
_NEOX = replace(_PLAIN, architecture="gptneox", is_fused=True, key_heads=HEADS).with_settings(
    rope__dimension_count=8
)
_YARN: dict[str, Value] = {
    "rope__scaling__type": "yarn",
    "rope__scaling__factor": 4.0,
    "rope__scaling__original_context_length": 128,
}
_LONG_ROPE: dict[str, Value] = {
    "rope__scaling__original_context_length": 64,
    "rope__scaling__attn_factor": 1.2,
}
# Real files have sections of which two pairs at most stand still; these have more, so that it shows.
_INTERLEAVED: dict[str, Value] = {
    "rope__dimension_sections": [2, 5, 4, 5],
    "n_deepstack_layers": 2,
}
_GRANITE = Tiny("granite").with_settings(
    logit_scale=0.5, residual_scale=1.3, embedding_scale=0.5, attention__scale=0.1
)
_COMMAND_R = Tiny("command-r", epsilon=LAYER, norms=("attn_norm",), is_tied=True).with_settings(
    logit_scale=0.5
)
_DENSE_FIRST = Tiny("deepseek", experts=8, shared_hidden=64).with_settings(
    **_MIXTURE,
    leading_dense_block_count=1,
    expert_feed_forward_length=32,
    expert_shared_count=2,
)
_DEEPSEEK2 = replace(_DENSE_FIRST, architecture="deepseek2", latent=TinyLatent()).with_settings(
    expert_weights_scale=1.5
)
_MINICPM3 = Tiny(
    "minicpm3",
    latent=TinyLatent(values=WIDTH // HEADS, is_joined=True, tells_values=False),
    embedding_gain=0.4,
)
_BY_SIGMOID: dict[str, Value] = {
    "expert_gating_func": 2,
    "expert_weights_norm": True,
    "expert_weights_scale": 2.5,
}
_GROUPS: dict[str, Value] = {"expert_group_count": 4, "expert_group_used_count": 2}
_GLM4MOE = replace(
    _DENSE_FIRST,
    architecture="glm4moe",
    norms=("attn_norm", "post_attention_norm"),
    qkv_bias=True,
    choice_bias=True,
).with_settings(
    rope__dimension_count=8,
    expert_gating_func=2,
    expert_group_count=1,
    expert_weights_norm=True,
)
_GLM4 = Tiny(
    "glm4",
    norms=("attn_norm", "ffn_norm", *_AFTER),
    qkv_bias=True,
    feed_forward=("up", "down"),
    up_rows=2 * HIDDEN,
).with_settings(rope__dimension_count=8)
_EXAONE_MOE = replace(
    _DENSE_FIRST, architecture="exaone-moe", head_norms="each", choice_bias=True
).with_settings(
    expert_gating_func=2,
    expert_weights_norm=True,
    expert_weights_scale=2.5,
    expert_shared_feed_forward_length=64,
    attention__sliding_window=20,
    attention__sliding_window_pattern=[True, False, True],
)
_LLAMA4 = Tiny("llama4", layers=4, experts=8, shared_hidden=32).with_settings(
    expert_count=8, expert_used_count=1, expert_feed_forward_length=32, interleave_moe_layer_step=1
)
_EXAONE4 = Tiny("exaone4", norms=_AFTER, head_norms="each", factors=("rope_freqs",))
_DELTA: dict[str, Value] = {
    "ssm__conv_kernel": 4,
    "ssm__group_count": 2,
    "ssm__inner_size": 4 * 32,
    "ssm__state_size": 32,
    "ssm__time_step_rank": 4,
    "full_attention_interval": 4,
}
_QWEN35 = Tiny(
    "qwen35",
    norms=("attn_norm", "post_attention_norm"),
    head_size=32,
    head_norms="each",
    is_gate_joined=True,
    delta="tiled",
    layers=6,
).with_settings(**_DELTA, rope__dimension_count=16, rope__dimension_sections=[2, 3, 2, 1])
_HYBRID_MOE = replace(_QWEN35, experts=8, shared_hidden=64, is_shared_gated=True).with_settings(
    **_MIXTURE, expert_feed_forward_length=32, expert_shared_feed_forward_length=64
)
_QWEN3_NEXT = replace(
    _HYBRID_MOE,
    architecture="qwen3next",
    delta="grouped",
    settings={k: v for k, v in _HYBRID_MOE.settings.items() if "sections" not in k},
)

MODELS: Mapping[str, Tiny] = {
    "llama": _LLAMA,
    "llama with experts": replace(_LLAMA, experts=8).with_settings(**_MIXTURE),
    "llama with biases": replace(
        _LLAMA, qkv_bias=True, biases=("attn_output", "ffn_gate", "ffn_up", "ffn_down")
    ),
    "llama, linear": _LLAMA.with_settings(rope__scaling__type="linear", rope__scaling__factor=4.0),
    "llama, factors": replace(_LLAMA, factors=("rope_freqs",)),
    "llama, YaRN": _LLAMA.with_settings(**_YARN),
    "llama, long rope": replace(
        _LLAMA, factors=("rope_factors_long", "rope_factors_short")
    ).with_settings(**_LONG_ROPE, rope__scaling__type="longrope"),
    "mistral3": Tiny("mistral3", head_size=32).with_settings(
        **{**_YARN, "rope__scaling__original_context_length": 16},
        rope__scaling__yarn_log_multiplier=0.5, attention__temperature_scale=0.3,
    ),
    "qwen2": Tiny("qwen2", qkv_bias=True),
    "qwen2, biased head": Tiny("qwen2", qkv_bias=True, biases=("output",)),
    "qwen3": Tiny("qwen3", head_norms="each", head_size=32),
    "qwen": Tiny("qwen", is_fused=True, key_heads=HEADS, qkv_bias=True).with_settings(
        feed_forward_length=2 * HIDDEN
    ),
    "qwen2vl": Tiny("qwen2vl", qkv_bias=True).with_settings(
        rope__dimension_sections=[2, 0, 1, 5]
    ),
    "qwen3vl": Tiny("qwen3vl", head_norms="each", head_size=32).with_settings(**_INTERLEAVED),
    "qwen3vlmoe": Tiny("qwen3vlmoe", head_norms="each", head_size=32, experts=8).with_settings(
        **_MIXTURE, **_INTERLEAVED, expert_feed_forward_length=32
    ),
    "qwen2moe": Tiny(
        "qwen2moe", qkv_bias=True, experts=8, shared_hidden=64, is_shared_gated=True
    ).with_settings(
        **_MIXTURE, expert_feed_forward_length=32, expert_shared_feed_forward_length=64
    ),
    "qwen3moe": Tiny("qwen3moe", head_norms="each", experts=8).with_settings(
        **_MIXTURE, expert_feed_forward_length=32
    ),
    "qwen3next": _QWEN3_NEXT,
    "qwen3next, in one": replace(_QWEN3_NEXT, delta="in one"),
    "qwen35": _QWEN35,
    "qwen35, drafts": replace(_QWEN35, layers=4, next_layers=1).with_settings(
        nextn_predict_layers=1, ssm__group_count=4
    ),
    # As the converter writes it: its feed-forward has no width beside the experts'.
    "qwen35moe": replace(_HYBRID_MOE, architecture="qwen35moe").with_settings(
        feed_forward_length=0
    ),
    "gemma": Tiny("gemma", head_size=32, key_heads=1, is_tied=True),
    "gemma2": replace(_GEMMA3, architecture="gemma2", head_norms="").with_settings(
        attention__sliding_window=20, attn_logit_softcapping=5.0, final_logit_softcapping=8.0
    ),
    "gemma3": _GEMMA3.with_settings(
        attention__sliding_window=20,
        attention__sliding_window_pattern=2,
        rope__freq_base=1e6,
        rope__scaling__type="linear",
        rope__scaling__factor=8.0,
    ),
    "gemma3, own head, capped": replace(_GEMMA3, is_tied=False).with_settings(
        attention__sliding_window=20, final_logit_softcapping=8.0
    ),
    "phi2": replace(
        _PLAIN, architecture="phi2", norms=("attn_norm",), biases=(*_PLAIN.biases, "output"),
        is_fused=True, key_heads=HEADS,
    ).with_settings(rope__dimension_count=8),
    "phi3": Tiny("phi3", is_fused=True, feed_forward=("up", "down"), up_rows=2 * HIDDEN),
    "phi3, long rope": Tiny(
        "phi3", is_fused=True, feed_forward=("up", "down"), up_rows=2 * HIDDEN,
        factors=("rope_factors_long", "rope_factors_short"),
    ).with_settings(**_LONG_ROPE),
    "starcoder2": replace(_PLAIN, architecture="starcoder2"),
    "stablelm": Tiny("stablelm", epsilon=LAYER, has_norm_bias=True).with_settings(
        rope__dimension_count=4, use_parallel_residual=True
    ),
    "stablelm, parallel": Tiny(
        "stablelm", epsilon=LAYER, has_norm_bias=True, norms=("attn_norm",), head_norms="own"
    ).with_settings(rope__dimension_count=4, use_parallel_residual=True),
    "olmo": Tiny("olmo", epsilon=LAYER, has_norm_weights=False),
    "olmo2": _OLMO2,
    "olmo2 with windows": _OLMO2.with_settings(
        attention__sliding_window=20, attention__sliding_window_pattern=2, **_YARN
    ),
    "olmo2 with windows, each layer told": replace(_OLMO2, layers=4).with_settings(
        attention__sliding_window=20, attention__sliding_window_pattern=[True, True, True, False]
    ),
    "granite": _GRANITE,
    "granite, not rotated": _GRANITE.with_settings(rope__scaling__finetuned=False),
    "granite with biases, long rope": replace(
        _GRANITE, biases=("attn_output", "ffn_gate", "ffn_up", "ffn_down"),
        factors=("rope_factors_long", "rope_factors_short"),
    ).with_settings(**_LONG_ROPE, rope__scaling__type="longrope"),
    "granitemoe": replace(_GRANITE, architecture="granitemoe", experts=8).with_settings(**_MIXTURE),
    "granitemoe, shared expert": replace(
        _GRANITE, architecture="granitemoe", experts=8, shared_hidden=64
    ).with_settings(**_MIXTURE, expert_shared_feed_forward_length=64),
    "minicpm": Tiny("minicpm").with_settings(
        logit_scale=0.5, residual_scale=1.3, embedding_scale=0.5
    ),
    "internlm2": Tiny("internlm2"),
    "command-r": _COMMAND_R,
    "gpt2": replace(_PLAIN, is_fused=True, key_heads=HEADS, learned_positions=512),
    "gptneox": _NEOX.with_settings(use_parallel_residual=True),
    "gptneox, sequential": _NEOX.with_settings(use_parallel_residual=False),
    "falcon": replace(
        _PLAIN, architecture="falcon", norms=("attn_norm",), is_fused=True, key_heads=1,
        qkv_bias=False, biases=(),
    ),
    "falcon, two norms": replace(
        _PLAIN, architecture="falcon", norms=("attn_norm", "attn_norm_2"), is_fused=True,
        qkv_bias=False, biases=(),
    ),
    "gpt-oss": Tiny(
        "gpt-oss", norms=("attn_norm", "post_attention_norm"), head_size=32, qkv_bias=True,
        biases=("attn_output",), experts=8, expert_bias=True, has_sinks=True,
    ).with_settings(
        **_MIXTURE, **_YARN, expert_feed_forward_length=96, attention__sliding_window=20
    ),
    "nemotron": replace(_PLAIN, architecture="nemotron", qkv_bias=False).with_settings(
        rope__dimension_count=8
    ),
    "arcee": Tiny("arcee", feed_forward=("up", "down")),
    "apertus": Tiny("apertus", head_norms="each", feed_forward=("up", "down")).with_settings(
        xielu__alpha_n=[0.8, -0.5, 22.0], xielu__alpha_p=[1.2, 0.3, -0.7],
        xielu__beta=[0.5, 0.7, 0.2], xielu__eps=[-1e-6, -0.3, -1e-6],
    ),
    "llama4": _LLAMA4,
    "llama4, no experts in every other layer": _LLAMA4.with_settings(interleave_moe_layer_step=2),
    "afmoe": replace(
        _DENSE_FIRST, architecture="afmoe", layers=5, norms=("attn_norm", "ffn_norm", *_AFTER),
        head_norms="each", choice_bias=True, is_attention_gated=True,
    ).with_settings(
        expert_gating_func=2, expert_weights_norm=True, expert_weights_scale=2.5,
        attention__sliding_window=20,
        attention__sliding_window_pattern=[True, False, True, True, True],
    ),
    "smollm3": Tiny("smollm3", layers=5),
    "cohere2": replace(_COMMAND_R, architecture="cohere2").with_settings(
        attention__sliding_window=20, attention__sliding_window_pattern=2, rope__dimension_count=8
    ),
    "glm4": _GLM4,
    "glm4, sections, drafts": replace(_GLM4, next_layers=1).with_settings(
        rope__dimension_sections=[1, 2, 1, 0], nextn_predict_layers=1
    ),
    "exaone": Tiny("exaone", factors=("rope_freqs",)),
    "exaone4": _EXAONE4,
    "exaone-moe": _EXAONE_MOE,
    # As its converter lists them: the layer for drafts is not among them.
    "exaone-moe, windows told of others": replace(
        _EXAONE_MOE, next_layers=1, is_draft_dense=True
    ).with_settings(nextn_predict_layers=1),
    "mellum": Tiny("mellum", head_norms="each", experts=8).with_settings(
        **_MIXTURE, **_YARN, expert_feed_forward_length=32, attention__sliding_window=20,
        attention__sliding_window_pattern=[True, False, True],
    ),
    "minimax-m2": Tiny(
        "minimax-m2", head_size=32, head_norms="whole", experts=8, choice_bias=True
    ).with_settings(
        **_MIXTURE, expert_feed_forward_length=HIDDEN, expert_gating_func=2, rope__dimension_count=8
    ),
    "olmoe": Tiny("olmoe", key_heads=HEADS, head_norms="whole", experts=8).with_settings(**_MIXTURE),
    "phimoe": Tiny(
        "phimoe", has_norm_bias=True, qkv_bias=True, biases=("attn_output", "output"), experts=8,
        factors=("rope_factors_long", "rope_factors_short"),
    ).with_settings(**_MIXTURE, **_LONG_ROPE),
    "deepseek": replace(_DENSE_FIRST, architecture="deepseek").with_settings(
        expert_weights_scale=1.5
    ),
    "deepseek2": _DEEPSEEK2,
    "deepseek2, groups, YaRN": _DEEPSEEK2.with_settings(
        **_YARN, **_GROUPS, rope__scaling__yarn_log_multiplier=0.0707
    ),
    "deepseek2, Lite": replace(_DEEPSEEK2, latent=TinyLatent(query_rank=0)).with_settings(
        expert_weights_scale=1.0
    ),
    "deepseek2, by sigmoid": replace(_DEEPSEEK2, choice_bias=True).with_settings(
        **_BY_SIGMOID, **_GROUPS, **_YARN, rope__scaling__yarn_log_multiplier=0.1
    ),
    "deepseek2, older": replace(_DEEPSEEK2, latent=TinyLatent(is_joined=True)).with_settings(
        **_YARN, rope__scaling__yarn_log_multiplier=0.0707
    ),
    "deepseek2 without experts": Tiny("deepseek2", latent=TinyLatent()).with_settings(
        leading_dense_block_count=3, expert_feed_forward_length=96, expert_shared_count=0
    ),
    "mistral4": replace(_DEEPSEEK2, architecture="mistral4", choice_bias=True).with_settings(
        **_BY_SIGMOID, **_YARN, rope__scaling__yarn_log_multiplier=0.07,
        attention__temperature_scale=0.3, attention__temperature_length=16,
    ),
    "minicpm3": _MINICPM3,
    "minicpm3, long rope": replace(
        _MINICPM3, factors=("rope_factors_long", "rope_factors_short")
    ).with_settings(**_LONG_ROPE, rope__scaling__type="longrope", rope__dimension_count=16),
    "plm": Tiny(
        "plm",
        latent=TinyLatent(query_rank=0, is_joined=True),
        feed_forward=("up", "down"),
        is_tied=True,
    ),
    "bailingmoe": replace(_DENSE_FIRST, architecture="bailingmoe").with_settings(
        leading_dense_block_count=0, expert_weights_norm=True
    ),
    "bailingmoe2": replace(
        _DENSE_FIRST, architecture="bailingmoe2", is_fused=True, head_norms="each", choice_bias=True
    ).with_settings(
        rope__dimension_count=8, expert_gating_func=2, expert_weights_norm=True,
        expert_group_count=4, expert_group_used_count=2, expert_weights_scale=2.5,
    ),
    "dots1": replace(
        _DENSE_FIRST, architecture="dots1", key_heads=HEADS, head_norms="each", choice_bias=True
    ).with_settings(expert_gating_func=2, expert_weights_norm=True, expert_weights_scale=2.5),
    "glm4moe": _GLM4MOE,
    "glm4moe, sections": _GLM4MOE.with_settings(rope__dimension_sections=[1, 1, 1, 1]),
    "glm4moe, normed heads, drafts": replace(
        _GLM4MOE, head_norms="each", next_layers=1
    ).with_settings(expert_weights_norm=False, nextn_predict_layers=1),
    "seed_oss": Tiny(
        "seed_oss", norms=("attn_norm", "post_attention_norm"), head_size=32, qkv_bias=True
    ),
    "ernie4_5": Tiny("ernie4_5", head_size=32, is_tied=True),
    "ernie4_5-moe": replace(
        _DENSE_FIRST, architecture="ernie4_5-moe", choice_bias=True
    ).with_settings(interleave_moe_layer_step=1, expert_shared_feed_forward_length=64),
    "starcoder": replace(
        _PLAIN, architecture="starcoder", is_fused=True, key_heads=1, learned_positions=512
    ),
    "orion": Tiny("orion", epsilon=LAYER, has_norm_bias=True),
    "hunyuan-dense": Tiny("hunyuan-dense", head_size=32, head_norms="each", is_tied=True),
    "hunyuan-moe": Tiny(
        "hunyuan-moe", head_norms="each", experts=8, shared_hidden=64
    ).with_settings(
        **_MIXTURE, expert_feed_forward_length=HIDDEN, expert_shared_feed_forward_length=64
    ),
    **WINDOWED,
    **LOOPED,
    **GEMMAS,
    **SIGMOID_MIXTURES,
    **HYBRIDS,
    **UNCOMMON,
    **ALIBI,
    "maincoder": Tiny("maincoder", head_norms="each"),
    "xverse": Tiny("xverse"),
}  # fmt: skip
# What models of the table do only if they have many layers.
DEEP: Mapping[str, Tiny] = {
    "deepseek2, 27 layers": replace(_DEEPSEEK2, latent=TinyLatent(query_rank=0), layers=27),
    "gemma2, 46 layers": replace(MODELS["gemma2"], layers=46),
    "gemma3, 62 layers": replace(MODELS["gemma3"], layers=62),
    "gemma3n, 35 layers": E4B,
    "command-r, 64 layers": replace(_COMMAND_R, head_norms="own", layers=64),
    **{f"baichuan, {n} layers": replace(ALIBI["baichuan"], layers=n) for n in (32, 40)},
    "exaone4, 64 layers": replace(_EXAONE4, layers=64).with_settings(
        attention__sliding_window=20,
        attention__sliding_window_pattern=[i % 4 < 3 for i in range(64)],
    ),
}
