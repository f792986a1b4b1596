"""Files that tell of a window which no layer has are not given to llama.cpp; the CPU runner computes them."""

from dataclasses import replace
from pathlib import Path

import pytest

from segue.assembly.runners import runner_obstacle
from segue.models.gguf import header
from segue.runners.llama.obstacles.sliding_window import sliding_window_obstacle
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import Value, write

TOLD = "no layer has the window that it tells of, over which it would end the process"


@pytest.mark.parametrize(
    ("name", "settings", "is_refused"),
    [
        ("gemma3", {"attention__sliding_window_pattern": 1}, True),
        ("gemma3", {"attention__sliding_window_pattern": 1, "attention__sliding_window": 0}, False),
        ("gemma3", {"attention__sliding_window_pattern": [False] * 3}, True),
        ("gemma3", {"attention__sliding_window_pattern": [False, True, False]}, False),
        ("gemma3", {}, False),
        ("gemma3n", {"attention__sliding_window_pattern": [False] * 22}, True),
        ("llama", {}, False),
    ],
)
def test_only_those_are_kept_from_it(
    tmp_path: Path, name: str, settings: dict[str, Value], is_refused: bool
) -> None:
    path = write(tmp_path / "x.gguf", MODELS[name].with_settings(**settings))
    assert runner_obstacle("llama", path) == (TOLD if is_refused else None)
    assert runner_obstacle("cpu", path) is None


def test_an_empty_list_has_none_either(tmp_path: Path) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS["spark2_5"]))
    key = "spark2_5.attention.sliding_window_pattern"
    assert sliding_window_obstacle(found) is None
    lengths = {**found.array_lengths, key: 0}
    assert (
        sliding_window_obstacle(replace(found, array_lengths=lengths, short_arrays={key: ()}))
        == TOLD
    )
