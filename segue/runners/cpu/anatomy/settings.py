"""The settings of a file that are numbers: which are counts, which are real, and in what range they make sense."""

import math

from segue.models.gguf import GgufHeader

_MOST = 2**32  # GGUF's counts have 32 bits
_LEAST_REAL, _MOST_REAL = 1e-30, 1e30  # 32 bits hold products and quotients of a few of these

COUNTS = (
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "expert_count",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "expert_used_count",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.scaling.original_context_length",
    "vocab_size",
)
REALS = (
    "attention.scale",
    "embedding_scale",
    "logit_scale",
    "residual_scale",
)
POSITIVE = (
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
)
BASES = ("rope.freq_base", "rope.freq_base_swa")  # above 1; all real numbers may be 0: not given


def wrong_number(header: GgufHeader) -> str | None:
    """Which setting is not a number as it should be, or None. Arrays are another matter."""
    for key in (*COUNTS, *REALS, *POSITIVE):
        name = f"{header.architecture}.{key}"
        value = header.metadata.get(name, 0)
        if key in COUNTS:
            if type(value) is not int or not 0 <= value < _MOST:
                return f"{name} is {value!r:.40}, not a count"
        elif type(value) not in (int, float) or not _is_sound(key, float(value)):
            return f"{name} is {value!r:.40}"
    return None


def _is_sound(key: str, value: float) -> bool:
    if value == 0:
        return True
    if not math.isfinite(value) or not _LEAST_REAL <= abs(value) <= _MOST_REAL:
        return False
    return key in REALS or value > (1 if key in BASES else 0)
