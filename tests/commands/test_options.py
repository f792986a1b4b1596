"""What the help of a command says of settings."""

import re

import pytest
from click.testing import CliRunner

from segue.cli import cli
from segue.commands.help_sections import SECTIONS


def help_of(*command: str) -> str:
    return " ".join(CliRunner().invoke(cli, [*command, "--help"]).output.split())


@pytest.mark.parametrize(
    "words",
    [
        "--port N port to listen on; 0 takes a free one [default: 8080]",
        "[default: 127.0.0.1]",
        "one per usable processor [default: auto]",
        "--drain-timeout N seconds that running requests get to finish when the server stops [default: 30]",
        "PATH.gguf, OWNER/REPO[:QUANT]",
    ],
)
def test_the_help_tells_defaults_and_what_a_model_is(words: str) -> None:
    assert words in help_of("serve")


def test_settings_stand_under_the_headings_of_their_document() -> None:
    headings = re.findall(
        r"^(\w.*):$", CliRunner().invoke(cli, ["serve", "--help"]).output, re.MULTILINE
    )
    assert headings == ["Options", *SECTIONS.values()]
    words = help_of("score")
    assert "Options: --format" in words
    assert words.index("Options:") < words.index("--json") < words.index("Models:")
    assert words.index("The engine:") < words.index("--threads")


def test_nothing_is_told_where_the_default_is_nothing() -> None:
    assert "when it changes --requests-per-minute" in help_of("serve")


def test_a_model_is_named_in_one_way() -> None:
    """`models show MODEL --model OTHER` described MODEL."""
    assert "--model " not in help_of("models", "show")
    assert "--model " in help_of("complete")


def test_switches_tell_their_default_and_lists_that_they_may_be_given_again() -> None:
    words = help_of("serve")
    assert "not only the first one [default: off]" in words
    assert "unless API keys are set [default: auto]" in words
    assert "localhost or *; repeatable" in words
