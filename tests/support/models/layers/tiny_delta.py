"""The tensors of a gated delta net, for tiny_writer.py."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from tests.support.models.tiny_gguf import Weights

Array = NDArray[np.float32]


def delta_net(
    settings: Mapping[str, object], kind: str, width: int, weights: Weights
) -> Iterator[tuple[str, Array]]:
    def count(key: str) -> int:
        value = settings[f"ssm.{key}"]
        assert isinstance(value, int)
        return value

    heads, size, values = count("time_step_rank"), count("state_size"), count("inner_size")
    channels = 2 * count("group_count") * size + values
    if kind == "in one":  # as older files have it
        yield "ssm_in.weight", weights.matrix(channels + values, width)
    else:
        yield "attn_qkv.weight", weights.matrix(channels, width)
        yield "attn_gate.weight", weights.matrix(values, width)
    yield "ssm_conv1d.weight", weights.matrix(channels, count("conv_kernel"))
    for name, rows in (
        {"beta": heads, "alpha": heads} if kind == "tiled" else {"ba": 2 * heads}
    ).items():
        yield f"ssm_{name}.weight", weights.matrix(rows, width)
    yield "ssm_dt.bias", weights.vector(-1.0, heads)
    yield "ssm_a", -np.abs(weights.vector(1.0, heads))
    yield "ssm_norm.weight", weights.vector(1.0, size)
    yield "ssm_out.weight", weights.matrix(width, values)
