"""Gemma 3n: four residuals side by side (AltUp), a small product beside attention (LAuReL), and feed-forwards of which
few columns act.

Its files have numbers for most of this; llama.cpp reads none of them. So they must be those that it takes.
"""

import math

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.family import Family

STREAMS = 4  # residuals side by side
LAUREL_RANK = 64
SPARSE_LAYERS, DEVIATIONS = 10, 1.6448533535003662  # beyond them are 5% of a normal distribution
_WITH_KEYS = 20  # layers; those after them take keys and values of the last two
SPARSITY = "activation_sparsity_scale"
_LOGIT_CAP = 30.0

Shapes = dict[str, tuple[int, ...]]


def first_without_keys(header: GgufHeader, family: Family, layers: int) -> int:
    """The number of the first layer that takes another's keys; that of all layers if each has its own."""
    if family.has_streams:
        return min(layers, _WITH_KEYS)
    return layers - header.count("attention.shared_kv_layers")


def whole_shapes(width: int) -> Shapes:
    """Tensors beside layers."""
    parts = ("altup_proj", "altup_unembd_proj")
    return {f"{name}.weight": (width, width, STREAMS - 1) for name in parts}


def layer_shapes(width: int) -> Shapes:
    own: Shapes = {
        "altup_correct_coef": (STREAMS, STREAMS),
        "altup_correct_scale": (width,),
        "altup_predict_coef": (STREAMS, STREAMS * STREAMS),
        "altup_router": (width, STREAMS),
        "altup_router_norm": (width,),
        "laurel_l": (width, LAUREL_RANK),
        "laurel_r": (LAUREL_RANK, width),
        "laurel_post_norm": (width,),
    }
    return {f"{name}.weight": shape for name, shape in own.items()}


def wrong_streams(header: GgufHeader, family: Family) -> str | None:
    """Which of the file's numbers is not what llama.cpp takes, or None."""
    if not family.has_streams:
        return None
    layers, prefix = header.count("block_count"), f"{header.architecture}."
    usual = {
        "altup.num_inputs": STREAMS,
        "altup.active_idx": 0,
        "attention.shared_kv_layers": max(0, layers - _WITH_KEYS),
        "final_logit_softcapping": _LOGIT_CAP,
    }
    for key, value in usual.items():
        if (found := header.metadata.get(prefix + key, value)) != value:
            return f"{prefix}{key} is {found!r:.40}, not {value}"
    if prefix + SPARSITY in header.array_lengths:
        acting = [DEVIATIONS] * SPARSE_LAYERS + [-math.inf] * layers
        told = header.listed(SPARSITY)
        near = [
            isinstance(one, float) and math.isclose(one, other, rel_tol=1e-5)
            for one, other in zip(told, acting, strict=False)
        ]
        if len(told) != layers or not all(near):
            return (
                f"{prefix}{SPARSITY}: other layers than the first {SPARSE_LAYERS} are sparse, or by "
                "another measure"
            )
    return None
