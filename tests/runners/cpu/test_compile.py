"""The process that compiles a step, and what may surround it."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from segue.errors import Incompatible
from segue.runners.cpu import compile
from segue.runners.cpu.compile import step_code
from segue.runners.cpu.native import link
from segue.runners.cpu.products.machine_code import nothing_kept
from segue.runners.cpu.products.processor import this_target
from tests.runners.cpu import few_kernels


def test_it_needs_no_disk_and_heeds_nothing_that_is_meant_for_other_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container whose disk is read-only, a file named as a library."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    (tmp_path / "llvmlite.py").write_text("raise SystemExit('not the library')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compile, "_MODULE", few_kernels.MODULE)
    target = this_target({})
    found = link(step_code(target, nothing_kept, kv_type="f16"), [*few_kernels.ENTRIES], target)
    assert all(found[name] for name in few_kernels.ENTRIES)


def test_why_it_failed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(
            [sys.executable], 1, b"", b"Traceback\nOSError: \xff no\n"
        )

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(Incompatible, match=r"cannot be compiled on this machine: OSError: . no"):
        step_code(this_target({}), nothing_kept, kv_type="f16")


def test_a_statement_that_is_refused_is_told_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: str) -> bytes:
        error = TypeError("kernels have no With")
        error.add_note("in attend: with lock:")
        raise error

    monkeypatch.setattr(compile, "_compile", refuse)
    monkeypatch.setattr(os, "name", "nt")  # standard input is not watched
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        compile._main("triple", "cpu", "features")
    assert ended.value.code == "TypeError: kernels have no With, in attend: with lock:"
    assert "Traceback" in capfd.readouterr().err


def test_it_ends_with_the_process_that_wants_the_code() -> None:
    """A server that is stopped or killed while it compiles left this process behind, busy for a minute."""
    target = this_target({})
    command = [sys.executable, "-m", compile.__name__, target.triple, target.cpu, target.features]
    with subprocess.Popen(
        command,
        env=compile._environment(target, "f16"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        code, _ = process.communicate()  # closes its input
    assert (process.returncode, code) == (1, b"")


_ENDING = """
import threading
from segue.runners.cpu.compile import compile_all

asked = threading.Event()

def kept(key, make):
    asked.set()
    threading.Event().wait()

threading.Thread(target=compile_all, args=((), "", kept, False, "f16"), daemon=True).start()
asked.wait()
"""


def test_a_program_that_ends_does_not_wait_for_it() -> None:
    """SIGTERM during a first start was heeded only when all was compiled."""
    subprocess.run([sys.executable, "-c", _ENDING], check=True, timeout=300)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system ends no process so")
def test_a_compiler_that_was_killed_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a system does that has no memory left; it was said to say nothing."""

    def killed(*_: object, **__: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess([sys.executable], -signal.SIGKILL, b"", b"")

    monkeypatch.setattr(subprocess, "run", killed)
    with pytest.raises(Incompatible, match=r"ended by SIGKILL; is there memory enough"):
        step_code(this_target({}), nothing_kept, kv_type="f16")
