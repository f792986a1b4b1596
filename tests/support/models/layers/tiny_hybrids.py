"""Tensors of layers that carry a state from token to token: short convolutions (LFM2), Mamba 1 and 2."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tests.support.models.tiny_gguf import Weights

Array = NDArray[np.float32]
Count = Callable[[str, int], int]
"""A setting of the file that is a count, or the default."""


def short_convolution(count: Count, width: int, weights: Weights) -> Iterator[tuple[str, Array]]:
    taps = count("shortconv.l_cache", 3)
    yield "shortconv.conv.weight", weights.matrix(width, taps)
    yield "shortconv.in_proj.weight", weights.matrix(3 * width, width, 1.5)
    yield "shortconv.out_proj.weight", weights.matrix(width, width, 1.5)


def mamba(
    count: Count, width: int, weights: Weights, has_norm: bool = True
) -> Iterator[tuple[str, Array]]:
    """States fade within some ten tokens."""
    inner, heads = count("ssm.inner_size", 0), count("ssm.time_step_rank", 0)
    groups = count("ssm.group_count", 0)
    channels = inner + 2 * groups * count("ssm.state_size", 0)
    yield "ssm_in.weight", weights.matrix(inner + channels + heads, width, 1.5)
    yield "ssm_conv1d.weight", weights.matrix(channels, count("ssm.conv_kernel", 0))
    yield "ssm_conv1d.bias", weights.vector(0.1, channels)
    yield "ssm_dt.bias", weights.vector(-1.0, heads)
    yield "ssm_a", -np.abs(weights.vector(0.3, heads)).reshape(heads, 1)
    yield "ssm_d", weights.vector(1.0, heads).reshape(heads, 1)
    if has_norm:
        yield "ssm_norm.weight", weights.vector(1.0, inner).reshape(groups, inner // groups)
    yield "ssm_out.weight", weights.matrix(width, inner, 1.5)


def mamba1(
    count: Count, width: int, weights: Weights, has_norms: bool = False
) -> Iterator[tuple[str, Array]]:
    """States fade within a few tokens, or some ten."""
    inner, states = count("ssm.inner_size", 0), count("ssm.state_size", 0)
    rank = count("ssm.time_step_rank", 0)
    yield "ssm_in.weight", weights.matrix(2 * inner, width, 1.5)
    yield "ssm_conv1d.weight", weights.matrix(inner, count("ssm.conv_kernel", 0))
    yield "ssm_conv1d.bias", weights.vector(0.1, inner)
    yield "ssm_x.weight", weights.matrix(rank + 2 * states, inner, 4.0)
    for name, size in {"dt": rank, "b": states, "c": states}.items() if has_norms else ():
        yield f"ssm_{name}_norm.weight", weights.vector(1.2, size)
    yield "ssm_dt.weight", weights.matrix(inner, rank)
    yield "ssm_dt.bias", weights.vector(-1.0, inner)
    yield "ssm_a", -np.abs(weights.matrix(inner, states, 2.0))
    yield "ssm_d", weights.vector(1.0, inner)
    yield "ssm_out.weight", weights.matrix(width, inner, 1.5)


def kda(
    count: Count, heads: int, width: int, weights: Weights, is_whole: bool
) -> Iterator[tuple[str, Array]]:
    """Keys fade within a few tokens, or some ten. `is_whole`: fading and gates are made by one matrix each."""
    size, taps = count("kda.head_dim", 0), count("ssm.conv_kernel", 0)
    whole = heads * size
    for part in "qkv":
        yield f"attn_{part}.weight", weights.matrix(whole, width, 1.5)
        kernel = weights.matrix(whole, taps, 2.0)
        yield f"ssm_conv1d_{part}.weight", kernel.reshape(1, whole, 1, taps)
    for name in "fg":
        yield f"ssm_{name}_a.weight", weights.matrix(whole if is_whole else size, width)
        if not is_whole:
            yield f"ssm_{name}_b.weight", weights.matrix(whole, size, 2.0)
    yield "ssm_beta.weight", weights.matrix(heads, width, 2.0)
    rates = np.abs(weights.vector(0.5, heads)).reshape(1, 1, heads, 1)
    yield "ssm_a", rates if is_whole else -rates
    yield "ssm_dt.bias", weights.vector(-1.0, whole)
    yield "ssm_norm.weight", weights.vector(1.0, size)
    yield "attn_output.weight", weights.matrix(width, whole, 1.5)


def plamo(count: Count, width: int, weights: Weights) -> Iterator[tuple[str, Array]]:
    inner, states = count("ssm.inner_size", 0), count("ssm.state_size", 0)
    heads, rank = count("ssm.time_step_rank", 0), max(64, width // 16)
    yield "ssm_in.weight", weights.matrix(2 * inner, width, 1.5)
    yield "ssm_conv1d.weight", weights.matrix(inner, count("ssm.conv_kernel", 0))
    yield "ssm_x.weight", weights.matrix(rank + 2 * states, inner, 4.0)
    for name, size in {"dt": rank, "b": states, "c": states}.items():
        yield f"ssm_{name}_norm", weights.vector(1.2, size)
    yield "ssm_dt.weight", weights.matrix(heads, rank)
    yield "ssm_dt.bias", weights.vector(-1.0, heads)
    yield "ssm_a", -np.abs(weights.vector(0.3, heads))
    yield "ssm_d", weights.vector(1.0, heads)
    yield "ssm_out.weight", weights.matrix(width, inner, 1.5)
