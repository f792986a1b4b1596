"""Settings that converters write of architectures that do not read them: under names of their own, or of every model
alike. They are no obstacle where they say what is computed anyway.
"""

import math
from collections.abc import Callable, Mapping

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.family import Family
from segue.runners.cpu.architectures.hparams import SIGMOID, SOFTMAX
from segue.runners.cpu.architectures.layers import head_size
from segue.runners.cpu.architectures.scaling import PLAIN_BASE, real, scaling
from segue.runners.cpu.exact_math import logarithm

_NEAR = 1e-4  # relative: files have 32 bits, and some print six digits


def is_without_effect(header: GgufHeader, family: Family, key: str) -> bool:
    """Whether what the file says under this key of its architecture is what is computed without it."""
    check = _CHECKS.get(key)
    return check is not None and check(header, family)


def is_usual_magnitude(header: GgufHeader, told: float) -> bool:
    """Whether YaRN's factor of cosines and sines is what follows from its factor."""
    kind, factor = scaling(header)
    usual = 1.0 + 0.1 * logarithm(factor)
    return kind == "yarn" and factor > 1.0 and math.isclose(told, usual, rel_tol=_NEAR)


def _is_usual_gating(header: GgufHeader, family: Family) -> bool:
    told = header.count("expert_gating_func")
    if family.routing.startswith("sigmoid"):
        return told == SIGMOID
    return told == SOFTMAX and family.routing in ("renormalised", "softmax")


def _is_one_group(header: GgufHeader, _: Family) -> bool:
    return header.count("expert_count") > 1 >= header.count("expert_group_count")


def _is_usual_base(header: GgufHeader, family: Family, key: str) -> bool:
    """Of layers with a window."""
    of_all = real(header, "rope.freq_base") or PLAIN_BASE
    own = family.window.base if family.window is not None else 0.0
    return real(header, key) == (own or of_all)


def _norms_shares(header: GgufHeader, family: Family) -> bool:
    told = header.metadata.get(f"{header.architecture}.norm_top_k_prob")
    return told is True and family.routing == "renormalised"


_CHECKS: Mapping[str, Callable[[GgufHeader, Family], bool]] = {
    "attention.head_dim": lambda header, _: header.count("attention.head_dim") == head_size(header),
    "expert_gating_func": _is_usual_gating,
    "expert_group_count": _is_one_group,
    "expert_group_used_count": _is_one_group,
    "max_position_embeddings": lambda header, _: header.count("max_position_embeddings") > 0,
    "norm_top_k_prob": _norms_shares,
    "rope.freq_base_swa": lambda header, family: _is_usual_base(
        header, family, "rope.freq_base_swa"
    ),
    "rope.local.freq_base": lambda header, family: _is_usual_base(
        header, family, "rope.local.freq_base"
    ),
    "rope.scaling.yarn_attn_factor": lambda header, _: is_usual_magnitude(
        header, real(header, "rope.scaling.yarn_attn_factor")
    ),
    "rope.scaling.yarn_ext_factor": lambda header, _: (
        scaling(header)[0] == "yarn" and real(header, "rope.scaling.yarn_ext_factor") == 1.0
    ),
}
