"""Rows of the table of architectures: older dense models, and text models of those that see, of which few files are
around.
"""

from collections.abc import Mapping

from segue.runners.cpu.architectures.families.keys import (
    AFTER,
    CLAMP,
    EXPERTS,
    FEED_FORWARD,
    MIXTURE,
    PLAIN,
    SCALES,
    SECTIONS,
    SIGMOID,
    WINDOWS,
)
from segue.runners.cpu.architectures.family import Family, Window

# Where there may be no factors of RoPE, llama.cpp has none, or takes the tensor and passes over it.
UNCOMMON: Mapping[str, Family] = {
    "chatglm": Family("neighbours", is_gate_fused=True, may_have_factors=False),
    "deci": Family(
        "neighbours",
        layers_are="as counted",
        may_bias=("attn_output", *FEED_FORWARD),
        has_long_rope=True,
    ),
    "bitnet": Family(
        sub_norms=("attn_sub_norm", "ffn_sub_norm"), is_tied=True, may_have_factors=False
    ),
    "openelm": Family(head_norms="each", is_tied=True, may_have_factors=False),
    "codeshell": Family(
        norm="layer",
        has_norm_bias=True,
        activation="gelu",
        is_gated=False,
        biases=PLAIN,
        is_untied=True,
        may_have_factors=False,
    ),
    "plamo": Family(
        norms=("attn_norm", ""), residuals="parallel", is_untied=True, may_have_factors=False
    ),
    "plamo3": Family(
        after=AFTER,
        head_norms="each",
        is_gate_fused=True,
        window=Window(8, base=10000.0, is_plain=True, is_magnified=True),
        may_have_factors=False,
        renamed=("_norm", "_norm.weight"),
        settings=WINDOWS,
    ),
    "pangu-embedded": Family(biases=("attn_output",), may_have_factors=False),
    "dbrx": Family(
        norm="layer",
        norms=("attn_norm", "attn_output_norm"),
        experts="all",
        is_untied=True,
        may_have_factors=False,
        settings=(*EXPERTS, CLAMP),
        needed=(CLAMP,),
    ),
    # What caps scores of experts has no effect in llama.cpp, nor has the length for temperatures.
    "grok": Family(
        after=("attn_output_norm", "post_ffw_norm"),
        activation="gelu",
        experts="all",
        shared_expert="beside",
        query_scale=0.08838834764831845,
        embedding_factor=78.38367176906169,
        score_cap=30.0,
        logit_factor=0.5773502691896257,
        yarn_betas=(8.0, 1.0),
        may_have_factors=False,
        renamed=(".layer_output_norm.weight", ".post_ffw_norm.weight"),
        settings=(
            *MIXTURE,
            *SCALES[1:2],
            *SCALES[3:],
            "attention.output_scale",
            "attention.temperature_length",
            "attn_logit_softcapping",
            "final_logit_softcapping",
            "router_logit_softcapping",
            "rope.scaling.yarn_attn_factor",
            "rope.scaling.yarn_ext_factor",
        ),
        nonzero=("attention.output_scale", "attn_logit_softcapping", "logit_scale"),
    ),
    "arctic": Family(
        "neighbours",
        experts="all",
        layers_are="experts first",
        may_have_factors=False,
        settings=EXPERTS,
    ),
    # With swin_norm llama.cpp computes another thing than the model (build 11549): such files are left to it.
    "chameleon": Family(
        "neighbours",
        head_norms="own",
        head_epsilon=1e-5,
        unsaid=(4, 8196),
        may_have_factors=False,
    ),
    "paddleocr": Family(
        sections="side by side",
        may_bias=("attn_output",),
        may_have_factors=False,
        settings=(SECTIONS,),
        needed=(SECTIONS,),
    ),
    "hunyuan_vl": Family(
        sections="side by side or none",
        head_norms="each",
        norms_heads_last=True,
        may_have_factors=False,
        settings=(*EXPERTS, SECTIONS, "rope.scaling.alpha"),
    ),
    "deepseek2-ocr": Family(
        has_plain_turns=True,
        experts="all",
        routing="as told",
        shared_expert="plain",
        has_choice_bias=True,
        may_have_factors=False,
        settings=SIGMOID,
        needed=("expert_feed_forward_length", "expert_shared_count"),
    ),
    # llama.cpp reads logits of the wrong rows of a prompt, unless all are wanted (build 11549).
    "cogvlm": Family(
        has_plain_turns=True,
        may_have_factors=False,
        unread=("vis_",),
        nonzero=("rope.dimension_count",),
    ),
}
