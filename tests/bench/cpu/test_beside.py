"""Both runners are measured on a file of random weights that the benchmark writes itself."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from segue.bench.cpu.beside import compared, main, write_random


@pytest.mark.parametrize("kind", ["Q4_K", "F16"])
def test_both_runners_have_speeds(tmp_path: Path, kind: str) -> None:
    path = write_random(tmp_path / "random.gguf", kind, layers=1)
    found = dict(compared(str(path), threads=1))
    assert list(found) == ["1 rows", "8 rows", "prompt"]
    assert all(speed > 0 for pair in found.values() for speed in pair)


@pytest.mark.parametrize(
    ("given", "said"), [(["--types", "Q9"], "--types takes names of Q4_0"), ([], "give files")]
)
def test_what_cannot_be_measured_is_told(given: list[str], said: str) -> None:
    answer = CliRunner().invoke(main, given)
    assert answer.exit_code == 2
    assert said in answer.stderr
