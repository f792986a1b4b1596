"""Files whose positions turn a part of a head are kept from llama.cpp where it would end the process."""

from pathlib import Path

import pytest

from segue.assembly.runners import runner_obstacle
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write


@pytest.mark.parametrize(
    ("name", "turned", "is_refused"),
    [("hy_v3", 8, True), ("qwen2", 8, True), ("qwen2", 16, False), ("stablelm", 8, False)],
)
def test_only_those_are_kept_from_it(
    tmp_path: Path, name: str, turned: int, is_refused: bool
) -> None:
    tiny = MODELS[name].with_settings(rope__dimension_count=turned)
    path = write(tmp_path / "x.gguf", tiny)
    told = f"{name}.rope.dimension_count is {turned}, of heads that are 16 wide"
    assert (runner_obstacle("llama", path) or "").startswith(told) == is_refused
    assert runner_obstacle("cpu", path) is None
