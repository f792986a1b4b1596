"""Older models, and text models of those that see: what of their files is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from segue.models.gguf import header
from segue.runners.cpu.architectures.positions import rotations
from segue.runners.cpu.architectures.settings import senseless
from segue.runners.cpu.architectures.support import supports
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import Value, write


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("paddleocr", {"rope__dimension_sections": [0, 0, 0, 4]}, "no pair of dimensions turns"),
        ("hunyuan_vl", {"rope__scaling__alpha": -1.0}, "hunyuan_vl.rope.scaling.alpha is -1.0"),
    ],
)
def test_what_ends_llama_cpp_is_computed_by_no_runner(
    tmp_path: Path, name: str, settings: dict[str, Value], reason: str
) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS[name].with_settings(**settings)))
    assert reason in (senseless(found) or "")


def test_without_sections_no_position_would_turn(tmp_path: Path) -> None:
    """llama.cpp would end the process."""
    found = header(write(tmp_path / "x.gguf", replace(MODELS["paddleocr"], settings={})))
    assert "no pair of dimensions turns" in (senseless(found) or "")


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("cogvlm", {"rope__freq_base": 5e5}, "turn by another base than 10000.0, or are scaled"),
        ("cogvlm", {"rope__scaling__factor": 2.0}, "another base than 10000.0, or are scaled"),
        ("deepseek2-ocr", {"rope__scaling__attn_factor": 1.2}, "than 10000.0, or are scaled"),
        ("deci", {"feed_forward_length": [0, 96, 192, 0, 96]}, "layer 0 has heads, and no feed"),
        ("deci", {"attention__head_count_kv": [0] * 5}, "no layer has attention"),
        ("grok", {"rope__scaling__yarn_beta_fast": 0.0}, "YaRN's betas are (0.0, 1.0)"),
        ("grok", {"rope__scaling__yarn_ext_factor": 0.5}, "yarn_ext_factor is not 1"),
        ("chameleon", {"swin_norm": True}, "settings it does not know: swin_norm"),
        ("hunyuan_vl", {"rope__dimension_sections": 4}, "sections is 4, not a list"),
        ("hunyuan_vl", {"rope__dimension_sections": [8, 8]}, "are not four counts"),
    ],
)
def test_what_is_not_computed_here_goes_to_llama_cpp(
    tmp_path: Path, name: str, settings: dict[str, Value], reason: str
) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS[name].with_settings(**settings)))
    assert reason in (supports(found) or "")
    assert senseless(found) is None


def test_scales_of_tensors_run_on_llama_cpp(tmp_path: Path) -> None:
    """Older files of BitNet have one beside each matrix, of any type."""
    found = header(write(tmp_path / "x.gguf", MODELS["bitnet"]))
    (norm,) = (tensor for tensor in found.tensors if tensor.name == "output_norm.weight")
    scale = replace(norm, name="blk.0.attn_q.scale", shape=(1,))
    changed = replace(found, tensors=(*found.tensors, scale))
    told = "the file has tensors it does not know: blk.N.attn_q.scale"
    assert told in (supports(changed) or "")


def test_plamo3_turns_windows_by_a_base_of_their_own(tmp_path: Path) -> None:
    """As in llama.cpp, if the file says none: not by that of all layers, nor scaled as they are."""
    told = MODELS["plamo3 with windows"].with_settings(
        rope__scaling__type="linear", rope__scaling__factor=4.0
    )
    found = header(write(tmp_path / "x.gguf", told))
    key = "plamo3.rope.freq_base_swa"
    untold = {name: value for name, value in found.metadata.items() if name != key}
    by_default = rotations(replace(found, metadata=untold), {}, is_windowed=True)
    assert (by_default.speeds == rotations(found, {}, is_windowed=True).speeds).all()
    assert by_default.speeds[0] == 1.0 == 4 * rotations(found, {}).speeds[0]
