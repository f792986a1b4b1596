"""What a shell is told when somebody presses Tab."""

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from segue.cli import cli
from segue.commands.options import _COMPLETED
from segue.config import TABLE
from segue.models.embedded import SMOLLM2


def completed(*words: str) -> list[tuple[str, str]]:
    """Type and value of what stands for the last word."""
    *before, last = words
    found = ShellComplete(cli, {}, "segue", "_SEGUE_COMPLETE").get_completions(before, last)
    return [(item.type, item.value) for item in found]


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "./mo"),
        ("serve", "a.gguf", "--api-key-file", "k"),
        ("serve", "--lora", "a"),
        ("serve", "--draft", "a"),
        ("doctor", "m"),
        ("complete", "--model", "./mo"),
        ("models", "show", "./mo"),
    ],
)
def test_models_and_paths_are_files(words: tuple[str, ...]) -> None:
    assert completed(*words) == [("file", words[-1])]


def test_dialects_are_named() -> None:
    assert completed("serve", "--dialect", "llama") == [
        ("plain", "llamacpp"),
        ("plain", "llamafile"),
        ("plain", "llamastack"),
    ]


def test_models_to_remove_or_to_show_are_named(tmp_path: Path) -> None:
    kept = tmp_path / "models" / SMOLLM2.file_name
    kept.parent.mkdir()
    kept.write_bytes(b"GGUF")
    here = ("--cache-dir", str(tmp_path))
    assert completed("models", "rm", *here, "de") == [("plain", "default")]
    assert completed("models", "rm", *here, "x") == []
    assert completed("models", "show", *here, "de") == [("plain", "default"), ("file", "de")]


def test_settings_that_are_wrong_complete_nothing(tmp_path: Path) -> None:
    """An error would stand in the middle of somebody's line."""
    wrong = tmp_path / "segue.toml"
    wrong.write_text("port = 'x")
    assert completed("models", "rm", "--config", str(wrong), "") == []


def test_every_setting_that_is_completed_exists() -> None:
    assert set(_COMPLETED) <= {row.name for row in TABLE}
