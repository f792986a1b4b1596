"""segue/cli.py: what every command has in common."""

import gc
import io
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from segue.cli import COMMANDS, Entry, _file_trouble, cli, main


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


@pytest.mark.parametrize(("chosen", "written"), [("latin-1", "\\u25cf"), ("latin-1:replace", "?")])
def test_what_an_encoding_that_is_asked_for_lacks_ends_no_command(
    chosen: str, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended with a traceback."""
    pipe = io.BytesIO()
    monkeypatch.setenv("PYTHONIOENCODING", chosen)
    encoding, _, errors = chosen.partition(":")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding, errors or "strict"))
    monkeypatch.setattr(sys, "argv", ["segue", "dialects", "--markdown"])
    with pytest.raises(SystemExit) as end:
        main()
    sys.stdout.flush()
    assert not end.value.code
    assert written in pipe.getvalue().decode("latin-1")


def test_a_command_that_a_test_runs_takes_no_signals_from_pytest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(sys, "argv", ["segue", "--version"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.startswith("segue")
    assert signal.getsignal(signal.SIGTERM) == before


SEGUE = [sys.executable, "-m", "segue"]
ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX closes them")
@pytest.mark.parametrize("closed", ["<&- 2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_end_no_command(closed: str) -> None:
    """Sockets had their numbers, and the worker ended; a server without standard error did not start at all."""
    command = shlex.join([*SEGUE, "complete", "x", "--runner", "fake", "--max-tokens", "1"])
    done = subprocess.run(["sh", "-c", f"exec {command} {closed}"], capture_output=True, cwd=ROOT)
    assert done.returncode == 0
    assert bool(done.stdout) == (">&-" not in closed.replace("2>&-", ""))


@pytest.mark.skipif(os.name == "nt", reason="a folder that is used cannot be removed there")
def test_a_folder_that_was_removed_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a traceback, of a start of the worker that knew no file."""
    assert _file_trouble(FileNotFoundError(2, "No such file or directory")) is None
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    told = _file_trouble(FileNotFoundError(2, "No such file or directory"))
    assert told == "the current folder was removed: change to another"


@pytest.mark.skipif(os.name == "nt", reason="names are UTF-16 there")
def test_a_name_that_is_not_utf_8_is_told_and_written(tmp_path: Path, tiny_gguf: Path) -> None:
    """Standard error was lost over it, with a traceback."""
    missing = os.fsencode(tmp_path) + b"/caf\xe9.gguf"
    asked = [*map(os.fsencode, SEGUE), b"models", b"pull"]
    done = subprocess.run([*asked, missing], capture_output=True, cwd=ROOT)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("segue: there is no file ")
    assert "caf\\udce9.gguf" in line
    if sys.platform == "linux":  # others refuse such a file
        os.link(tiny_gguf, missing)
        done = subprocess.run([*asked, missing], capture_output=True, cwd=ROOT)
        assert done.stdout.startswith(missing + b"  ")


def test_a_message_of_several_lines_stays_so() -> None:
    """It had \\n in it, and the place in a grammar that is pointed at was lost."""
    asked = ["complete", "x", "--runner", "fake", "--grammar", 'root ::= "a']
    done = subprocess.run([*SEGUE, *asked], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first == "segue: --grammar: line 1, column 10: this quote is never closed"
    assert second == "  (read as GBNF, since it has ::=)"


def test_garbage_is_collected_after_a_command_was_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or its import failed."""
    context = click.Context(cli)
    assert cli.get_command(context, "completion") is not None
    assert gc.isenabled()
    monkeypatch.setitem(COMMANDS, "completion", Entry("segue.commands.missing", ""))
    with pytest.raises(ModuleNotFoundError):
        cli.get_command(context, "completion")
    assert gc.isenabled()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.get_short_help_str(limit=200) == COMMANDS[name].summary


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--help"], {"numpy", "asyncio", "rich", "msgspec"}),
        (["--version"], {"numpy", "asyncio", "rich", "msgspec"}),
        (["complete", "--help"], {"numpy", "asyncio", "rich", "jinja2"}),
        (["models", "list"], {"numpy", "asyncio", "jinja2"}),
        (["models", "pull", "--help"], {"numpy", "asyncio", "jinja2"}),
        (["dialects"], {"numpy", "llguidance"}),
    ],
)
def test_a_quick_command_imports_what_it_needs(
    arguments: list[str], unneeded: set[str], tmp_path: Path
) -> None:
    """`segue --help` imported every command, and with them numpy."""
    program = f"import atexit, sys; from segue.cli import main; sys.argv[1:] = {arguments}; "
    program += (
        f"atexit.register(lambda: print({unneeded} & sys.modules.keys(), file=sys.stderr)); main()"
    )
    environment = {**os.environ, "SEGUE_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=ROOT, env=environment)
    assert done.returncode == 0
    assert done.stderr == "set()\n"


def test_a_shell_is_told_the_commands_without_their_imports() -> None:
    context = click.Context(cli)
    assert [item.value for item in cli.shell_complete(context, "com")] == ["complete", "completion"]
    assert "--version" in [item.value for item in cli.shell_complete(context, "--")]
