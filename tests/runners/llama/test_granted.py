"""Files over which llama.cpp would end the process are not given to it."""

from dataclasses import replace
from pathlib import Path

import pytest

from segue.assembly.runners import runner_obstacle
from segue.models.gguf import header
from segue.runners.llama.granted import granted_obstacle
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import Value, write


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("deepseek2-ocr", {"rope__freq_base": 5e4}, "turn by a base of 50000.0, not of 10000.0"),
        ("deepseek2-ocr", {"attention__head_count_kv": 2}, "16 with 2 keys are not 64 wide"),
        ("deepseek2-ocr", {"attention__value_length": 32}, "16 with 4 keys are not 64 wide"),
        ("deci", {"feed_forward_length": [96, 96, 192, 96, 0]}, "last layer has no feed-forward"),
    ],
)
def test_what_it_takes_for_granted(
    tmp_path: Path, name: str, settings: dict[str, Value], reason: str
) -> None:
    path = write(tmp_path / "x.gguf", MODELS[name].with_settings(**settings))
    assert reason in (runner_obstacle("llama", path) or "")
    assert runner_obstacle("llama", write(tmp_path / "y.gguf", MODELS[name])) is None


def test_the_cpu_runner_needs_no_tokens_of_pictures(tmp_path: Path) -> None:
    path = write(tmp_path / "x.gguf", replace(MODELS["chameleon"], more_tokens=100))
    assert runner_obstacle("llama", path) == "its vocabulary has 372 tokens, not 8196"
    assert runner_obstacle("cpu", path) is None
    load(path, threads=1).close()


@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        ("grok", "blk.2.ffn_down.weight"),
        ("hy_v3", "blk.1.ffn_up_shexp.weight"),
        ("mimo2", "blk.0.ffn_up.weight"),
        ("step35", "blk.1.ffn_down_exps.weight"),
    ],
)
def test_a_feed_forward_is_whole(tmp_path: Path, name: str, lacking: str) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS[name]))
    assert granted_obstacle(found) is None
    tensors = tuple(tensor for tensor in found.tensors if tensor.name != lacking)
    _, layer, matrix = lacking.split(".", 2)
    assert granted_obstacle(replace(found, tensors=tensors)) == f"layer {layer} lacks {matrix}"
