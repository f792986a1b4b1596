"""Whether a vocabulary can be read, which is tried."""

from pathlib import Path

import pytest

from segue.assembly import vocabulary
from segue.assembly.vocabulary import vocabulary_obstacle
from tests.support.models.tiny_gguf import write_tiny_gguf


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"tokenizer": "klingon"}, "klingon"),
        ({"control_tokens": ("<|fim_middle|>",)}, "are both b'<|fim_middle|>'"),
        ({}, None),
    ],
)
def test_what_cannot_be_read_is_told(
    tmp_path: Path, made: dict[str, object], words: str | None
) -> None:
    path = write_tiny_gguf(tmp_path / "model.gguf", **made)  # type: ignore[arg-type]
    found = vocabulary_obstacle(path)
    if words is None:
        assert found is None
    else:
        assert found is not None
        assert words in found
        assert str(tmp_path) not in found


def test_a_file_that_ends_the_process_which_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As llama.cpp does with some. Here the process's function takes nothing that it is given."""
    monkeypatch.setattr(vocabulary, "_read", divmod)
    assert vocabulary_obstacle(tmp_path) == "reading it ended with exit code 1"
