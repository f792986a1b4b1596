"""What each setting of a model's file may be: a count, a real number, yes or no, a text, or a list of these.

One table for all architectures: a key means the same in each that reads it. Where 0 is no good, though it is as good as
unsaid for others, the architecture's row says so (`nonzero` in family.py).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from segue.models.gguf import GgufHeader, Value
from segue.runners.cpu.architectures.family import Family
from segue.runners.cpu.architectures.states.recurrence import RWKV

_MOST = 2**32 - 1  # GGUF's counts have 32 bits
_MOST_SIGNED = 2**31 - 1  # llama.cpp counts some of them with a sign
_LEAST_REAL, _MOST_REAL = 1e-30, 1e30  # 32 bits hold products and quotients of a few of these
_SHOWN = 40  # characters of a value


@dataclass(frozen=True)
class Kind:
    """What a setting, or each value of a list, may be. A real number may be 0 besides."""

    type: type
    named: str  # what is right, in words
    least: float = 0
    most: float = 0
    has_sign: bool = False  # the bounds are of the number's size
    texts: tuple[str, ...] = ()  # if only some are known

    def takes(self, value: Value) -> bool:
        if type(value) is not self.type:
            return False
        if isinstance(value, str):
            return not self.texts or value in self.texts
        if isinstance(value, bool):
            return True
        is_within = self.least <= (abs(value) if self.has_sign else value) <= self.most
        return is_within or (value == 0 and isinstance(value, float))


def _real(least: float, most: float) -> Kind:
    return Kind(float, f"a real number from {least:g} to {most:g}", least, most)


_KNOWN = ("none", "linear", "yarn", "longrope")  # ways to scale positions; llama.cpp knows no other
COUNT = Kind(int, "a count", most=_MOST)
SIGNED_COUNT = Kind(int, "a count with 31 bits", most=_MOST_SIGNED)
REAL = Kind(float, "a real number", _LEAST_REAL, _MOST_REAL, has_sign=True)
POSITIVE = _real(_LEAST_REAL, _MOST_REAL)
BASE = Kind(float, "a real number above 1", math.nextafter(1.0, 2.0), _MOST_REAL)
FACTOR = _real(1e-4, 1e6)
FLAG, TEXT = Kind(bool, "yes or no"), Kind(str, "a text")
SCALING = Kind(str, f"one of {', '.join(_KNOWN)}", texts=_KNOWN)

SCALING_TYPE = "rope.scaling.type"
KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(
        (
            "altup.active_idx",
            "altup.num_inputs",
            "attention.decay_lora_rank",
            "attention.gate_lora_rank",
            "attention.head_count",
            "attention.head_count_kv",
            "attention.iclr_lora_rank",
            "attention.key_length",
            "attention.key_length_mla",
            "attention.key_length_swa",
            "attention.kv_lora_rank",
            "attention.q_lora_rank",
            "attention.shared_kv_layers",
            "attention.sliding_window_pattern",
            "attention.temperature_length",
            "attention.value_length",
            "attention.value_length_mla",
            "attention.value_length_swa",
            "attention.value_residual_mix_lora_rank",
            "block_count",
            "embedding_length",
            "embedding_length_per_layer_input",
            "expert_count",
            "expert_feed_forward_length",
            "expert_gating_func",
            "expert_group_count",
            "expert_group_used_count",
            "expert_shared_count",
            "expert_shared_feed_forward_length",
            "expert_used_count",
            "feed_forward_length",
            "full_attention_interval",
            "hrm.h_cycles",
            "hrm.l_cycles",
            "hrm.layers_per_stack",
            "interleave_moe_layer_step",
            "kda.head_dim",
            "leading_dense_block_count",
            "moe_every_n_layers",
            "nextn_predict_layers",
            "num_loops",
            "rescale_every_n_layers",
            "rope.dimension_count",
            "rope.dimension_count_swa",
            "shortconv.l_cache",
            "ssm.conv_kernel",
            "ssm.group_count",
            "ssm.inner_size",
            "ssm.state_size",
            "ssm.time_step_rank",
            "time_decay_extra_dim",
            "time_mix_extra_dim",
            "token_shift_count",
            "vocab_size",
            "wkv.head_size",
        ),
        COUNT,
    ),
    # Distances between tokens have a sign in llama.cpp, for which a wider window would be one of no tokens.
    "attention.sliding_window": SIGNED_COUNT,
    "context_length": SIGNED_COUNT,
    "rope.scaling.original_context_length": SIGNED_COUNT,
    "n_deepstack_layers": Kind(int, "a count of at most 512 layers", most=512),
    **dict.fromkeys(
        (
            "attention.clamp_kqv",
            "attention.output_scale",
            "attention.scale",
            "attention.temperature_scale",
            "attention.value_scale",
            "embedding_scale",
            "expert_weights_scale",
            "kda.gate_lower_bound",
            "logit_scale",
            "residual_scale",
            "rope.scaling.yarn_attn_factor",
            "rope.scaling.yarn_ext_factor",
            "router_logit_softcapping",
            "swiglu_clamp_exp",  # below 0 there is no limit, as in llama.cpp
            "swiglu_clamp_shexp",
        ),
        REAL,
    ),
    **dict.fromkeys(
        (
            "attention.layer_norm_epsilon",
            "attention.layer_norm_rms_epsilon",
            "attention.max_alibi_bias",
            "attn_logit_softcapping",
            "final_logit_softcapping",
            "rope.scaling.yarn_beta_fast",
            "rope.scaling.yarn_beta_slow",
            "rope.scaling.yarn_log_multiplier",
        ),
        POSITIVE,
    ),
    "rope.freq_base": BASE,
    "rope.freq_base_swa": BASE,
    **dict.fromkeys(
        (
            "rope.scale_linear",
            "rope.scaling.alpha",
            "rope.scaling.attn_factor",
            "rope.scaling.factor",
        ),
        FACTOR,
    ),
    **dict.fromkeys(
        (
            "attention.causal",
            "expert_weights_norm",
            "hrm.prefix_lm",
            "kda.safe_gate",
            "rope.scaling.finetuned",
            "skip_loop_final_norm",
            "ssm.dt_b_c_rms",
            "use_parallel_residual",
        ),
        FLAG,
    ),
    SCALING_TYPE: SCALING,
    "tensor_data_layout": TEXT,
}

_IS_TURNED = Kind(int, "0 or 1", most=1)
# Settings that may be lists, and what their values may be: of each layer, or four.
LISTS: Mapping[str, tuple[Kind, ...]] = {
    "activation_sparsity_scale": (Kind(float, "a real number", -math.inf, _MOST_REAL),),
    "attention.head_count": (COUNT,),
    "attention.head_count_kv": (COUNT,),
    "attention.rope_pattern": (FLAG, _IS_TURNED),
    "attention.sliding_window_pattern": (FLAG, _IS_TURNED),
    "expert_count": (COUNT,),
    "expert_feed_forward_length": (COUNT,),
    "expert_used_count": (COUNT,),
    "feed_forward_length": (COUNT,),
    "rope.dimension_sections": (Kind(int, "a count below 65536", most=2**16 - 1),),
    "swiglu_clamp_exp": (REAL,),
    "swiglu_clamp_shexp": (REAL,),
}
_TURNING = ("rope.freq_base", "rope.freq_base_swa", "rope.scaling.attn_factor")
_SIZES = ("attention.key_length", "attention.value_length")


def wrong_kind(header: GgufHeader, family: Family) -> str | None:
    """Which setting is not what it may be, with its value and what would be right; None if all are."""
    return next(_wrong_kinds(header, family), None)


def _wrong_kinds(header: GgufHeader, family: Family) -> Iterator[str]:
    nonzero = _nonzero(family)
    for key, kind in KINDS.items():
        name = f"{header.architecture}.{key}"
        value = header.metadata.get(name)
        if value is not None and not kind.takes(value):
            yield f"{name} is {value!r:.{_SHOWN}}, not {kind.named}"
        elif value == 0 and key in nonzero:
            is_plain = kind.least > 0 and not kind.has_sign  # the words leave 0 out
            yield f"{name} is {value}, not {kind.named}{'' if is_plain else ' other than 0'}"
    for key, kinds in LISTS.items():
        name = f"{header.architecture}.{key}"
        if name in header.array_lengths and not header.listed(key):
            yield f"{name} is a list of {header.array_lengths[name]} values, not of a few numbers"
        told = [header.metadata[name]] if name in header.metadata and key not in KINDS else []
        for value in (*told, *header.listed(key)):
            if not any(kind.takes(value) for kind in kinds):
                yield f"{name} has {value!r:.{_SHOWN}}, which is not {kinds[0].named}"


def _nonzero(family: Family) -> set[str]:
    """Settings of which 0 is another thing than nothing said: llama.cpp computes with it, or ends the process."""
    found = {*family.nonzero}
    if "none" not in (family.turns, family.rotated):
        found |= {*_TURNING}
    if "leading_dense_block_count" in family.settings:  # which take it from nothing else
        found.add("expert_feed_forward_length")
    if family.mixer not in RWKV and family.layers_are != "a mixer":
        found |= {*_SIZES}
        if family.layers_are != "as counted":
            found.add("attention.head_count_kv")
    return found
