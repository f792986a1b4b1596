"""Newer architectures with windows: which layers have one, which turn, and what is refused."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from segue.models.gguf import header
from segue.runners.cpu.architectures.hparams import hparams_of
from segue.runners.cpu.architectures.settings import senseless
from segue.runners.cpu.architectures.support import supports
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import Tiny, Value, write


@pytest.mark.parametrize(
    ("name", "windows", "turning"),
    [
        ("granite_swa", [20, 0, 20], [1, 0, 1]),
        ("granite_swa with experts", [20, 0, 20], [1, 1, 1]),
        ("spark2_5", [20, 0, 20], [1, 1, 1]),
        ("maple", [20, 0, 20], [1, 0, 1]),
        ("smallthinker", [0, 4096, 4096, 4096, 0], [0, 1, 1, 1, 0]),
        ("smallthinker without windows", [0] * 5, [1] * 5),
        ("laguna with windows, gates of heads", [0, 20, 20, 20, 0], [1] * 5),
        ("muse-glimmer", [20, 0, 20], [1, 0, 1]),
    ],
)
def test_layers_are_told_apart(
    tmp_path: Path, name: str, windows: list[int], turning: list[bool]
) -> None:
    layers = hparams_of(header(write(tmp_path / "x.gguf", MODELS[name]))).by_layer
    assert [layer.window for layer in layers] == windows
    assert [layer.pairs > 0 for layer in layers] == turning


def test_experts_of_each_layer_have_a_bound(tmp_path: Path) -> None:
    for told, bounds in ((0.5, [0.5] * 3), ([2.0, 1e-7, -1.0], [2.0, 0.0, 0.0])):
        tiny = MODELS["maple"].with_settings(swiglu_clamp_exp=told)
        layers = hparams_of(header(write(tmp_path / "x.gguf", tiny))).by_layer
        assert [layer.expert_limit for layer in layers] == bounds


def test_four_layers_of_smallthinker_turn_all(tmp_path: Path) -> None:
    """As in llama.cpp, for which the step between layers that do not is then that of a model without windows."""
    tiny = replace(MODELS["smallthinker"], layers=4)
    layers = hparams_of(header(write(tmp_path / "x.gguf", tiny))).by_layer
    assert all(layer.pairs for layer in layers)
    assert sum(layer.window > 0 for layer in layers) == 3


def test_shares_by_nothing_would_end_llama_cpp_too(tmp_path: Path) -> None:
    tiny = MODELS["smallthinker"].with_settings(expert_gating_func=0)
    assert senseless(header(write(tmp_path / "x.gguf", tiny))) == "expert_gating_func is 0"


def test_gates_of_laguna_are_of_dimensions_or_of_heads(tmp_path: Path) -> None:
    """Others would end llama.cpp's process."""
    gates = {0: [64] * 3, 4: [4] * 3}
    for rows, expected in gates.items():
        found = header(write(tmp_path / "x.gguf", replace(MODELS["laguna"], gate_rows=rows)))
        assert supports(found) is None
        assert [layer.gate for layer in hparams_of(found).by_layer] == expected
    found = header(write(tmp_path / "x.gguf", replace(MODELS["laguna"], gate_rows=8)))
    assert "layer 0 has 8 gates for 4 heads of 16" in (senseless(found) or "")
    for shape in ((), (64,), (1, 1, 64, 64)):
        odd = [
            replace(tensor, shape=shape) for tensor in found.tensors if "attn_gate" in tensor.name
        ]
        told = senseless(replace(found, tensors=(*found.tensors, *odd))) or ""
        assert "layer 0 has 1 gates for 4 heads of 16" in told


def test_without_windows_nothing_of_muse_glimmer_turns(tmp_path: Path) -> None:
    none = {"attention__sliding_window_pattern": [False] * 3}
    tiny = MODELS["muse-glimmer"].with_settings(**none)
    layers = hparams_of(header(write(tmp_path / "x.gguf", tiny))).by_layer
    assert not any(layer.window or layer.pairs for layer in layers)


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        (
            "granite_swa",
            {"attention__rope_pattern": [True] * 2},
            "rope_pattern is told of 2 layers",
        ),
        (
            "granite_swa",
            {"attention__sliding_window": 0},
            "granite_swa.attention.sliding_window: it is 0",
        ),
        (
            "granite_swa",
            {"attention__sliding_window_pattern": 2},
            "pattern is not a list of layers",
        ),
        ("granite_swa", {"expert_shared_feed_forward_length": 64}, "does not know: expert_shared"),
        ("granite_swa", {"logit_scale": 0.0}, "granite_swa.logit_scale is 0.0, not"),
        ("spark2_5", {"rope__dimension_count_swa": 8}, "does not know: rope.dimension_count_swa"),
        ("olmo2", {"rope__freq_base_swa": 2e4}, "does not know: rope.freq_base_swa"),
        (
            "maple",
            {"swiglu_clamp_exp": [0.5, math.nan, 0.5]},
            "swiglu_clamp_exp has nan, which is not",
        ),
        ("maple", {"swiglu_clamp_exp": [0.5]}, "is told of 1 layers, not of 3"),
        ("maple", {"swiglu_clamp_exp": 0.0}, "maple.swiglu_clamp_exp: it is 0.0"),
        ("smallthinker", {"expert_gating_func": 3}, "neither by softmax nor by sigmoid"),
        ("smallthinker", {"expert_weights_scale": 2.5}, "does not know: expert_weights_scale"),
        ("muse-glimmer", {"attention__sliding_window": 0}, "attention.sliding_window: it is 0"),
    ],
)
def test_what_the_table_does_not_know_is_refused(
    tmp_path: Path, name: str, settings: dict[str, Value], reason: str
) -> None:
    path = write(tmp_path / "x.gguf", MODELS[name].with_settings(**settings))
    assert reason in (supports(header(path)) or "")


@pytest.mark.parametrize(
    ("tiny", "reason"),
    [
        (
            replace(MODELS["granite_swa"], has_sinks=False),
            "lacks tensors (blk.0.attn_sinks.weight)",
        ),
        (replace(MODELS["spark2_5"], gate_rows=64), "attn_gate.weight has the shape (64, 64)"),
        (replace(MODELS["muse-glimmer"], is_tied=True), "lacks tensors (output.weight)"),
        (
            replace(MODELS["muse-glimmer"], head_norms=""),
            "lacks tensors (blk.0.attn_k_norm.weight)",
        ),
    ],
)
def test_tensors_are_those_of_the_table(tmp_path: Path, tiny: Tiny, reason: str) -> None:
    assert reason in (supports(header(write(tmp_path / "x.gguf", tiny))) or "")
