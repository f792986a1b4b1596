"""What a file's tensors become: the same numbers whatever their type, and none that is no number."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from segue.engine.seam import Span
from segue.errors import ModelUnavailable
from segue.models import gguf
from segue.runners.cpu.architectures.tensors import vector
from segue.runners.cpu.products.processor import possible, target_of
from segue.runners.cpu.weights import Weights
from tests.runners.cpu.conftest import load
from tests.runners.cpu.products.reference import KEPT, tensor
from tests.support.models.tiny_lora import write_tiny_lora
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

TARGET = target_of(possible()[0])


def with_number(source: Path, target: Path, name: str, number: float) -> Path:
    """A copy of the file whose tensor of floats begins with this number."""
    data = bytearray(source.read_bytes())
    (place,) = (each.offset for each in gguf.header(source).tensors if each.name == name)
    data[place : place + 4] = np.float32(number).tobytes()
    target.write_bytes(data)
    return target


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("blk.1.ffn_norm.weight", np.nan),
        ("blk.1.ffn_norm.weight", -np.inf),
        ("blk.1.ffn_up.weight", np.nan),
        ("token_embd.weight", np.inf),
    ],
)
def test_a_file_with_weights_that_are_no_numbers_is_refused(
    tiny_gguf: Path, tmp_path: Path, name: str, number: float
) -> None:
    """Most answers were wrong and looked well; some ended with logits that are not numbers."""
    damaged = with_number(tiny_gguf, tmp_path / "x.gguf", name, number)
    with pytest.raises(ModelUnavailable, match=f"tensor {name} has .* not numbers"):
        Weights(damaged, TARGET, 1, KEPT)


def test_so_is_one_whose_states_would_fade_by_no_numbers(tmp_path: Path) -> None:
    """Its decays would be the fastest, and answers would look well."""
    path = write(tmp_path / "tiny.gguf", MODELS["rwkv6"])
    ends = ("decay.weight", "decay_w1.weight", "decay_w2.weight", "first.weight", "w1.weight")
    for name in (f"blk.1.time_mix_{end}" for end in ends):
        damaged = with_number(path, tmp_path / "x.gguf", name, np.nan)
        with pytest.raises(ModelUnavailable, match=f"tensor {name} has .* not numbers"):
            Weights(damaged, TARGET, 1, KEPT)


def test_a_sink_may_take_nothing(tmp_path: Path) -> None:
    path, name = write(tmp_path / "tiny.gguf", MODELS["gpt-oss"]), "blk.0.attn_sinks.weight"
    runner = load(with_number(path, tmp_path / "x.gguf", name, -np.inf), threads=1)
    assert np.isfinite(runner.decode([Span(0, [1, 2, 3], 0, 1)])).all()
    runner.close()
    with pytest.raises(ModelUnavailable, match=f"tensor {name} has .* infinite"):
        Weights(with_number(path, tmp_path / "x.gguf", name, np.inf), TARGET, 1, KEPT)


def test_an_adapter_with_weights_that_are_no_numbers_is_refused(
    tiny_gguf: Path, tmp_path: Path
) -> None:
    sound = write_tiny_lora(tmp_path / "sound.gguf", tiny_gguf)
    name = gguf.header(sound).tensors[0].name
    damaged = with_number(sound, tmp_path / "x.gguf", name, np.nan)
    with pytest.raises(ModelUnavailable, match=f"tensor {name} has .* not numbers"):
        load(tiny_gguf, adapters={"x": str(damaged)})


EXACT = {
    "F32": lambda data: data.view(np.float32),
    "F16": lambda data: data.view(np.float16),
    "BF16": lambda data: (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32),
}


@pytest.mark.parametrize("kind", EXACT)
def test_a_vector_has_the_numbers_of_the_file(kind: str) -> None:
    matrix, data = tensor(np.random.default_rng(0), kind, 64, 1)
    found = vector(replace(matrix, shape=(64,)), data)
    assert found.dtype == np.float32
    assert found.tolist() == EXACT[kind](data[matrix.offset :]).tolist()
