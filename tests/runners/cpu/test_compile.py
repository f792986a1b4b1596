"""The process that compiles a step, and what may surround it."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from segue.errors import Incompatible
from segue.runners.cpu.compile import ENTRIES, step_code
from segue.runners.cpu.native import link
from segue.runners.cpu.products.machine_code import nothing_kept
from segue.runners.cpu.products.processor import this_target


def test_it_needs_no_disk_and_heeds_nothing_that_is_meant_for_other_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container whose disk is read-only, numba switched off to debug a program, a file named as a library."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    (tmp_path / "numba.py").write_text("raise SystemExit('not the library')")
    monkeypatch.chdir(tmp_path)
    target = this_target({})
    found = link(step_code(target, nothing_kept), [*ENTRIES], target)
    assert all(found[name] for name in ENTRIES)


def test_why_it_failed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(
            [sys.executable], 1, b"", b"Traceback\nOSError: \xff no\n"
        )

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(Incompatible, match=r"cannot be compiled on this machine: OSError: . no"):
        step_code(this_target({}), nothing_kept)
