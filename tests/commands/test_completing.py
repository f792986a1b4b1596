"""What a shell is told when somebody presses Tab."""

import pytest
from click.shell_completion import ShellComplete

from segue.cli import cli
from segue.commands.options import _COMPLETED
from segue.config import TABLE


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


def test_every_setting_that_is_completed_exists() -> None:
    assert set(_COMPLETED) <= {row.name for row in TABLE}
