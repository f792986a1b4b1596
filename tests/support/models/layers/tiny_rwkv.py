"""Tensors of RWKV's layers. Heads of RWKV 7 have 64 columns: llama.cpp reads as many at once, whatever a file says."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tests.support.models.tiny_gguf import Weights

Array = NDArray[np.float32]
Count = Callable[[str, int], int]
"""A setting of the file that is a count, or the default."""

_RANKS = {"w": "decay", "a": "iclr", "v": "value_residual_mix", "g": "gate"}


def rwkv_layer(
    count: Count, layer: int, hidden: int, weights: Weights, is_adapted: bool, has_norm: bool
) -> Iterator[tuple[str, Array]]:
    """`is_adapted`: it was made from a transformer's layer, whose feed-forward it has."""
    width = count("embedding_length", 0)
    yield from _norms(width, weights, is_adapted)
    yield from _time_mix(count, layer, width, weights)
    if has_norm:
        yield from _norm_of_heads(width, weights)
    yield from _feed_forward(width, hidden, weights, is_adapted)


def rwkv6_layer(
    count: Count, hidden: int, weights: Weights, is_adapted: bool, is_fused: bool, has_bias: bool
) -> Iterator[tuple[str, Array]]:
    """`is_fused`: shares of mixtures of rows are one tensor."""
    width = count("embedding_length", 0)
    yield from _norms(width, weights, is_adapted)
    yield from _time_mix6(count, width, weights, is_fused)
    kept = count("attention.head_count_kv", 0) * count("wkv.head_size", 0) or width
    sizes = {"receptance": width, "key": kept, "value": kept}
    for name, size in sizes.items():
        yield f"time_mix_{name}.weight", weights.matrix(size, width)
        if has_bias:
            yield f"time_mix_{name}.bias", weights.vector(0.1, size)
    if not is_adapted:
        first = weights.vector(0.3, width).reshape(-1, count("wkv.head_size", 0))
        yield "time_mix_first.weight", first
        yield from _norm_of_heads(width, weights)
    yield from _feed_forward(width, hidden, weights, is_adapted)
    if not is_adapted:
        yield "channel_mix_lerp_r.weight", weights.vector(0.5, width)
        yield "channel_mix_receptance.weight", weights.matrix(width, width)


def _norm_of_heads(width: int, weights: Weights) -> Iterator[tuple[str, Array]]:
    yield "time_mix_ln.weight", weights.vector(1.0, width)
    yield "time_mix_ln.bias", weights.vector(0.0, width)


def _feed_forward(
    width: int, hidden: int, weights: Weights, is_adapted: bool
) -> Iterator[tuple[str, Array]]:
    if is_adapted:
        for name in ("gate", "up"):
            yield f"ffn_{name}.weight", weights.matrix(hidden, width)
        yield "ffn_down.weight", weights.matrix(width, hidden)
        return
    yield "channel_mix_lerp_k.weight", weights.vector(0.5, width)
    yield "channel_mix_key.weight", weights.matrix(hidden, width)
    yield "channel_mix_value.weight", weights.matrix(width, hidden)


def _norms(width: int, weights: Weights, is_adapted: bool) -> Iterator[tuple[str, Array]]:
    for name in ("attn_norm", "ffn_norm") if is_adapted else ("attn_norm", "attn_norm_2"):
        yield f"{name}.weight", weights.vector(1.0, width)
        if not is_adapted:
            yield f"{name}.bias", weights.vector(0.0, width)


def _time_mix(
    count: Count, layer: int, width: int, weights: Weights
) -> Iterator[tuple[str, Array]]:
    """States fade within some ten tokens. The first layer has shares of values of its own, which nothing reads."""
    ranks = {name: count(f"attention.{key}_lora_rank", 0) for name, key in _RANKS.items()}
    lerps = 6 if ranks["g"] else 5
    yield (
        "time_mix_lerp_fused.weight",
        weights.vector(0.5, lerps * width).reshape(lerps, 1, 1, width),
    )
    for name in ("receptance", "key", "value", "output"):
        yield f"time_mix_{name}.weight", weights.matrix(width, width)
    for name, rank in ranks.items():
        rank = ranks["a"] if name == "v" and not layer else rank
        if rank:
            yield f"time_mix_{name}1.weight", weights.matrix(rank, width)
            yield f"time_mix_{name}2.weight", weights.matrix(width, rank, 2.0)
        if name != "g":
            yield f"time_mix_{name}0.weight", weights.vector(-1.0 if name == "w" else 0.2, width)
    for name, mean in {"k_k": 0.8, "k_a": 0.7, "r_k": 0.1}.items():
        yield f"time_mix_{name}.weight", weights.vector(mean, width)


def _time_mix6(
    count: Count, width: int, weights: Weights, is_fused: bool
) -> Iterator[tuple[str, Array]]:
    """But what heads have."""
    rank, decay = count("time_mix_extra_dim", 0), count("time_decay_extra_dim", 0)
    yield "time_mix_lerp_x.weight", weights.vector(0.5, width)
    if is_fused:
        yield "time_mix_lerp_fused.weight", weights.vector(0.5, 5 * width).reshape(5, 1, 1, width)
    else:
        for name in "wkvrg":
            yield f"time_mix_lerp_{name}.weight", weights.vector(0.5, width)
    yield "time_mix_w1.weight", weights.matrix(5 * rank, width)
    yield "time_mix_w2.weight", weights.matrix(5 * width, rank, 0.5).reshape(5, width, rank)
    yield "time_mix_decay.weight", weights.vector(-1.0, width)
    yield "time_mix_decay_w1.weight", weights.matrix(decay, width)
    yield "time_mix_decay_w2.weight", weights.matrix(width, decay, 2.0)
    for name in ("gate", "output"):
        yield f"time_mix_{name}.weight", weights.matrix(width, width)
