"""Files with layers that carry a state: which are refused, and by whom."""

from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest

from segue.errors import ModelUnavailable
from segue.models.gguf import header
from segue.runners.cpu.architectures.hparams import hparams_of
from segue.runners.cpu.architectures.settings import senseless
from segue.runners.cpu.architectures.support import supports
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"full_attention_interval": 0}, "qwen35.full_attention_interval is 0"),
        ({"full_attention_interval": 7}, "of 6 layers 0 have attention and 6 a state"),
        ({"full_attention_interval": 1}, "of 6 layers 6 have attention and 0 a state"),
        ({"full_attention_interval": -4}, "full_attention_interval is -4, not a count"),
        ({"ssm.group_count": 3}, "4 heads of values do not share 3 keys evenly"),
        ({"ssm.time_step_rank": 2**31}, "do not share 2 keys evenly|are not 128 wide"),
        ({"ssm.state_size": 16}, "4 heads of 16 are not 128 wide"),
        ({"ssm.inner_size": 64}, "4 heads of 32 are not 64 wide"),
    ],
)
def test_what_makes_no_sense_is_computed_by_no_runner(
    tmp_path: Path, settings: dict[str, int], reason: str
) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS["qwen35"]))
    own = {f"qwen35.{key}": value for key, value in settings.items()}
    changed = replace(found, metadata={**found.metadata, **own})
    told = senseless(changed) or ""
    assert any(part in told for part in reason.split("|"))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"ssm.conv_kernel": 1}, "its convolutions see 1 tokens, not 2 to 16"),
        ({"ssm.conv_kernel": 2**30}, "its convolutions see 1073741824 tokens"),
        ({"ssm.state_size": 8, "ssm.inner_size": 32}, "heads of states are 8 wide"),
        ({"ssm.state_size": 64, "ssm.inner_size": 256}, "has the shape"),
        ({"ssm.conv_kernel": 0}, "does not say qwen35.ssm.conv_kernel"),
        ({"full_attention_interval": 2}, "the file lacks tensors"),
        ({"ssm.dt_b_c_rms": True}, "settings it does not know: ssm.dt_b_c_rms"),
    ],
)
def test_what_the_kernels_do_not_compute_is_refused(
    tmp_path: Path, settings: dict[str, int], reason: str
) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS["qwen35"]))
    own = {f"qwen35.{key}": value for key, value in settings.items()}
    changed = replace(found, metadata={**found.metadata, **own})
    assert senseless(changed) is None
    assert reason in (supports(changed) or "")


def test_tensors_of_a_layer_with_a_state_are_all_needed(tmp_path: Path) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS["qwen3next"]))
    for name in ("ssm_ba.weight", "ssm_a", "ssm_conv1d.weight", "attn_gate.weight"):
        left = tuple(tensor for tensor in found.tensors if tensor.name != f"blk.1.{name}")
        told = supports(replace(found, tensors=left)) or ""
        assert f"the file lacks tensors (blk.1.{name})" in told


def test_layers_are_told_apart_by_the_interval(tmp_path: Path) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS["qwen35"]))
    attends = [layer.attends for layer in hparams_of(found).by_layer]
    assert attends == [False, False, False, True, False, False]
    unsaid = dict(found.metadata)
    del unsaid["qwen35.full_attention_interval"]
    by_layer = hparams_of(replace(found, metadata=unsaid)).by_layer
    assert [layer.attends for layer in by_layer] == attends
    assert all(layer.attends == (layer.recurrence is None) for layer in by_layer)


def test_states_that_would_grow_without_end_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.gguf", MODELS["qwen35"])
    [place] = [
        tensor.data_offset
        for tensor in gguf.GGUFReader(path).tensors
        if tensor.name == "blk.1.ssm_a"
    ]
    data = bytearray(path.read_bytes())
    data[place : place + 4] = np.float32(0.25).tobytes()
    path.write_bytes(data)
    with pytest.raises(ModelUnavailable, match=r"blk\.1\.ssm_a states grow without end"):
        load(path)
