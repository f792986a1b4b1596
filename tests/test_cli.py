"""segue/cli.py: what every command has in common."""

import gc
import io
import sys

import click
import pytest

from segue.cli import COMMANDS, cli, main


@pytest.mark.parametrize(("chosen", "used"), [("", "utf-8"), ("utf-16", "utf-16")])
def test_a_pipe_gets_utf8_unless_another_encoding_is_asked_for(
    chosen: str, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where pipes have another one, as on Windows, the first character that it lacks ended the command."""
    pipe = io.BytesIO()
    monkeypatch.setenv("PYTHONIOENCODING", chosen)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding=chosen or "cp1252"))
    monkeypatch.setattr(sys, "argv", ["segue", "dialects", "--markdown"])
    with pytest.raises(SystemExit):
        main()
    sys.stdout.flush()
    assert "●" in pipe.getvalue().decode(used)


def test_garbage_is_collected_after_a_command_was_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or its import failed."""
    context = click.Context(cli)
    assert cli.get_command(context, "completion") is not None
    assert gc.isenabled()
    monkeypatch.setitem(COMMANDS, "completion", "segue.commands.missing")
    with pytest.raises(ModuleNotFoundError):
        cli.get_command(context, "completion")
    assert gc.isenabled()
