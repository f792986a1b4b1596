"""What the system does not give is told in a sentence, wherever it is missed."""

import asyncio
import errno
import multiprocessing
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from segue import cli
from segue.engine.process.supervisor import Supervisor
from segue.engine.seam import Loaded
from segue.errors import Incompatible, shortage
from segue.runners.fake import FakeLoader

NO_THREAD = RuntimeError("can't start new thread")


def of_system(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (of_system(errno.EMFILE), "open files"),
        (of_system(errno.ENFILE), "open files"),
        (of_system(errno.ENOMEM), "memory"),
        (MemoryError(), "memory"),
        (of_system(errno.ENOSPC), "space on the disk"),
        (of_system(errno.EAGAIN), "threads"),
        (NO_THREAD, "threads"),
    ],
)
def test_what_is_short_is_named(error: BaseException, what: str) -> None:
    assert f"no more {what}" in (shortage(error) or "")


@pytest.mark.parametrize(
    "error", [OSError(), FileNotFoundError("x"), RuntimeError("x"), ValueError("x")]
)
def test_other_errors_are_others(error: BaseException) -> None:
    assert shortage(error) is None


def test_a_command_ends_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ended in a traceback."""

    def fail(*_: Any, **__: Any) -> None:
        raise of_system(errno.EMFILE)

    monkeypatch.setattr(cli, "cli", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("segue: the system gives this process no more open")


def test_what_a_file_says_cannot_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pre-tokenizer's name cleared it. A line that it begins looks like none of ours."""

    def fail(*_: Any, **__: Any) -> None:
        raise Incompatible("unknown pre-tokenizer type: '\x1b[2J\n'")

    monkeypatch.setattr(cli, "cli", fail)
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().err == "segue: unknown pre-tokenizer type: '\\x1b[2J\n  '\n"


def test_a_file_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(cli, "cli", lambda **_: (tmp_path / "none" / "x.svg").write_text("x"))
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().err == f"segue: {tmp_path}/none/x.svg: No such file or directory\n"


def start(loader: Any) -> None:
    async def main() -> None:
        await Supervisor(loader, chunk_rows=64).start()

    asyncio.run(main())


def test_a_process_that_cannot_be_started_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object) -> None:
        raise of_system(errno.EMFILE)

    monkeypatch.setattr(multiprocessing.get_context("spawn").Process, "start", fail)
    with pytest.raises(Incompatible, match="no more open files"):
        start(FakeLoader())


@dataclass(frozen=True)
class Crowded:
    """A model that loads, in a process that may not have another thread after it."""

    def __call__(self) -> Loaded:
        loaded = FakeLoader()()

        def fail(self: object) -> None:
            raise NO_THREAD

        threading.Thread.start = fail  # type: ignore[method-assign]
        return loaded


def test_a_worker_without_its_threads_is_one(capfd: pytest.CaptureFixture[str]) -> None:
    """`loading the model ended with exit code 1` was said, after a traceback."""
    with pytest.raises(Incompatible, match="no more threads"):
        start(Crowded())
    sys.stderr.flush()
    assert "Traceback" not in capfd.readouterr().err
