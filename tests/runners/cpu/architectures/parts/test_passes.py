"""Layers that are passed several times: whose tensors each has, and counts that make no sense."""

from pathlib import Path

import pytest

from segue.models.gguf import header
from segue.runners.cpu.architectures.hparams import hparams_of
from segue.runners.cpu.architectures.settings import senseless
from segue.runners.cpu.architectures.support import supports
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import Value, write


@pytest.mark.parametrize(
    ("name", "weights_of", "ended"),
    [
        ("nanbeige", [0, 1, 2, 0, 1, 2], {3: "loop"}),
        ("nanbeige, loops not normed", [0, 1, 0, 1, 0, 1], {}),
        (
            "hrm_text",
            [0, 1, 0, 1, 2, 3, 0, 1, 0, 1, 2, 3],
            {2: "low", 4: "low", 6: "high", 8: "low", 10: "low"},
        ),
        ("talkie", [0, 1, 2], {}),
    ],
)
def test_whose_tensors_layers_have(
    tmp_path: Path, name: str, weights_of: list[int], ended: dict[int, str]
) -> None:
    layers = hparams_of(header(write(tmp_path / "x.gguf", MODELS[name]))).by_layer
    assert [layer.weights_of for layer in layers] == weights_of
    assert {i: layer.ended for i, layer in enumerate(layers) if layer.ended} == ended


def test_each_pass_has_keys_of_its_own(tmp_path: Path) -> None:
    sizes = {}
    for loops in (1, 2):
        tiny = MODELS["nanbeige"].with_settings(num_loops=loops)
        runner = load(write(tmp_path / "x.gguf", tiny), threads=1)
        sizes[loops] = runner.capabilities.num_cells
        runner.close()
    assert sizes[1] == 2 * sizes[2]


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("nanbeige", {"num_loops": 0}, "3 layers are passed 0 times"),
        ("nanbeige", {"num_loops": 171}, "3 layers are passed 171 times"),
        ("nanbeige", {"num_loops": "two"}, "nanbeige.num_loops is 'two', not a count"),
        ("hrm_text", {"hrm__h_cycles": 3}, "3 times 2 low stacks and a high one of 2 are not 12"),
        ("hrm_text", {"hrm__l_cycles": 0}, "2 times 0 low stacks and a high one of 2 are not 12"),
        ("hrm_text", {"hrm__layers_per_stack": 0}, "2 times 2 low stacks and a high one of 0"),
    ],
)
def test_passes_that_make_no_sense_are_computed_by_no_runner(
    tmp_path: Path, name: str, settings: dict[str, Value], reason: str
) -> None:
    """llama.cpp would end the process."""
    path = write(tmp_path / "x.gguf", MODELS[name].with_settings(**settings))
    assert reason in (senseless(header(path)) or "")


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("talkie", {"logit_scale": 0.0}, "does not say talkie.logit_scale"),
        ("talkie", {"attention__head_count": 8}, "are not 64 wide (blk.0.attn_q)"),
        ("nanbeige", {"attention__scale": 0.5}, "does not know: attention.scale"),
    ],
)
def test_what_the_table_does_not_know_is_refused(
    tmp_path: Path, name: str, settings: dict[str, Value], reason: str
) -> None:
    path = write(tmp_path / "x.gguf", MODELS[name].with_settings(**settings))
    assert reason in (supports(header(path)) or "")
