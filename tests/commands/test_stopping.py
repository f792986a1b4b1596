"""Ctrl-C, SIGTERM and SIGHUP: a command leaves nothing behind, and says what ended it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from segue import cli
from tests.support.waiting import PATIENCE_S, wait_until

PIP = """
import os, signal
place = os.environ["PIP_STARTED"]
with open(place + ".part", "w") as file:
    file.write(str(os.getpid()))
os.replace(place + ".part", place)
signal.pause()
"""
HANGUP = getattr(signal, "SIGHUP", signal.SIGTERM)  # the end of a terminal
# As in a terminal, though these tests may run in the background of a shell, where Ctrl-C is ignored, or under nohup.
SEGUE = f"""
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal({int(HANGUP)}, signal.SIG_DFL)
runpy.run_module("segue", run_name="__main__", alter_sys=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals for this")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, HANGUP])
def test_pip_ends_with_the_command_that_started_it(tmp_path: Path, number: signal.Signals) -> None:
    """After SIGTERM it went on, and its folder stayed."""
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").touch()
    (tmp_path / "pip" / "__main__.py").write_text(PIP)
    started, cache = tmp_path / "started", tmp_path / "cache"
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    env = os.environ | {"PYTHONPATH": paths, "PIP_STARTED": str(started)}
    command = [sys.executable, "-c", SEGUE, "models", "pull", "--cache-dir", str(cache)]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE) as pulling:
        try:
            wait_until(started.exists)
            pulling.send_signal(number)
            _, said = pulling.communicate(timeout=PATIENCE_S)
        finally:
            pulling.kill()
    assert pulling.returncode == -number
    assert b"Traceback" not in said
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text("utf-8")), 0)
    assert not list(cache.glob("models/.fetch-*"))


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (click.Abort(), 1), (SystemExit(3), 3)]
)
def test_statuses(monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int) -> None:
    """Ctrl-C is 130: it was 1, as if the command had failed."""

    @click.command()
    def broken() -> None:
        raise error

    monkeypatch.setattr(cli.Commands, "get_command", lambda *_: broken)
    assert CliRunner().invoke(cli.cli, ["broken"]).exit_code == code


def test_ctrl_c_at_a_question_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    @click.command()
    def asking() -> None:
        click.confirm("Really?", abort=True)

    monkeypatch.setattr(cli.Commands, "get_command", lambda *_: asking)
    assert CliRunner().invoke(cli.cli, ["asking"], input="n\n").exit_code == 1
    monkeypatch.setattr(click.termui, "visible_prompt_func", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.cli(["asking"])
    assert ended.value.code == 130
