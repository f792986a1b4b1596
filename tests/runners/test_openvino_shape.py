from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from segue.models.gguf import GgufHeader, Tensor, header
from segue.runners.openvino_shape import rotations, shape_of, supports
from tests.tiny_gguf import DIM, HEAD_DIM, HEADS, KV_HEADS, LAYERS, ROPE_BASE, write_tiny_gguf


@pytest.fixture(scope="module")
def tiny(tiny_gguf: Path) -> GgufHeader:
    return header(tiny_gguf)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_known_architectures_are_supported(tmp_path: Path, architecture: str) -> None:
    assert supports(header(write_tiny_gguf(tmp_path / "x", architecture=architecture))) is None


def with_metadata(**values: int | float | str) -> Callable[[GgufHeader], GgufHeader]:
    keys = {f"llama.{key.replace('__', '.')}": value for key, value in values.items()}
    return lambda tiny: replace(tiny, metadata={**tiny.metadata, **keys})


def with_tensor(name: str) -> Callable[[GgufHeader], GgufHeader]:
    return lambda tiny: replace(tiny, tensors=(*tiny.tensors, Tensor(name, (4, 4), "F32", 0, 64)))


CHANGES: list[tuple[Callable[[GgufHeader], GgufHeader], str]] = [
    (with_metadata(rope__scaling__type="yarn"), "positions are scaled by 'yarn'"),
    (with_metadata(attention__sliding_window=64), "does not know: attention.sliding_window"),
    (with_metadata(attention__causal=False), "not causal"),
    (with_metadata(rope__dimension_count=16), "rope.dimension_count is 16"),
    (with_metadata(attention__head_count_kv=3), "4 heads do not share 3 keys evenly"),
    (with_metadata(block_count=LAYERS + 1), "lacks tensors"),
    (with_tensor("blk.0.attn_q.bias"), "does not know: blk.N.attn_q.bias"),
    (with_tensor("blk.1.ffn_gate_exps.weight"), "does not know: blk.N.ffn_gate_exps.weight"),
    (lambda tiny: replace(tiny, architecture="gemma3"), "the architecture is gemma3, not one of"),
]


@pytest.mark.parametrize(("change", "reason"), CHANGES)
def test_whatever_could_change_the_numbers_is_refused_by_name(
    tiny: GgufHeader, change: Callable[[GgufHeader], GgufHeader], reason: str
) -> None:
    assert reason in (supports(change(tiny)) or "")


def test_measures(tiny: GgufHeader) -> None:
    shape = shape_of(tiny)
    assert (shape.layers, shape.width, shape.heads) == (LAYERS, DIM, HEADS)
    assert (shape.kv_heads, shape.head_dim) == (KV_HEADS, HEAD_DIM)
    assert shape.vocab_size == tiny.n_vocab


def test_rotations_slow_down_by_scale_and_by_factors(tiny: GgufHeader) -> None:
    plain = rotations(tiny, None)
    np.testing.assert_allclose(plain, ROPE_BASE ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM), 1e-6)
    linear = with_metadata(rope__scaling__type="linear", rope__scaling__factor=4.0)(tiny)
    np.testing.assert_allclose(rotations(linear, None), plain / 4, 1e-6)
    factors = np.linspace(1, 8, HEAD_DIM // 2, dtype=np.float32)
    np.testing.assert_allclose(rotations(tiny, factors), plain / factors, 1e-6)
