"""Where a command would wait for what nobody types."""

import io

import pytest
from click.testing import CliRunner, Result

from segue.cli import cli
from segue.errors import SetupError


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


def typed(*arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--runner", "fake"], input=Terminal(b"typed"))


@pytest.mark.parametrize("command", ["complete", "score"])
def test_without_anything_to_read_a_terminal_is_not_waited_for(command: str) -> None:
    refused = typed(command)
    assert refused.exit_code == 2
    assert f"There is nothing to read: segue {command} " in refused.stderr


def test_who_asks_for_what_is_typed_is_told_how_to_end_it() -> None:
    done = typed("complete", "-", "--echo", "--max-tokens", "0")
    assert done.stdout == "typed\n"
    assert "reading what is typed here; Ctrl-" in done.stderr


def test_an_empty_input_is_no_prompt_but_where_a_suffix_follows() -> None:
    empty = ["complete", "--runner", "fake", "--max-tokens", "1"]
    error = CliRunner().invoke(cli, empty).exception
    assert isinstance(error, SetupError)
    assert error.message.startswith("standard input has no prompt: segue complete ")
    assert CliRunner().invoke(cli, [*empty, "--suffix", "end"]).exit_code == 0
