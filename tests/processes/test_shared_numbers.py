import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from segue.processes.shared_numbers import FileLock, SharedNumbers
from tests.support.waiting import PATIENCE_S

pytest.importorskip("fcntl", reason="numbers are shared where files can be locked")

ADD = """
import sys
from segue.processes.shared_numbers import SharedNumbers
numbers = SharedNumbers(2, sys.argv[1])
for _ in range(2000):
    with numbers.lock:
        numbers.values[1] += 1
"""
HOLD = """
import sys, time
from segue.processes.shared_numbers import SharedNumbers
numbers = SharedNumbers(1, sys.argv[1])
with numbers.lock:
    numbers.values[0] = 1
    print("held", flush=True)
    time.sleep(600)
"""


def start(program: str, path: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", program, str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_nothing_is_lost_when_several_processes_add(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    processes = [start(ADD, path) for _ in range(3)]
    for process in processes:
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
    assert list(SharedNumbers(2, str(path)).values) == [0.0, 6000.0]


def test_a_killed_process_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    with start(HOLD, path) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        os.kill(holder.pid, signal.SIGKILL)
        numbers = SharedNumbers(1, str(path))
        with numbers.lock:
            assert numbers.values[0] == 1


def test_the_file_is_closed_with_the_lock(tmp_path: Path) -> None:
    """A program that makes many, as tests do, ran out of files where it may open 256, as on macOS."""
    numbers = SharedNumbers(1, str(tmp_path / "numbers"))
    values, lock = numbers.values, numbers.lock
    assert isinstance(lock, FileLock)
    descriptor, file = lock._descriptor, (tmp_path / "numbers").stat()
    assert is_open(descriptor, file)
    del numbers, lock
    gc.collect()
    assert not is_open(descriptor, file)
    values[0] = 1.0  # which is still there


def is_open(descriptor: int, file: os.stat_result) -> bool:
    """Whether it is this file's: another thread may have opened another one, which takes the lowest that is free."""
    try:
        return os.path.samestat(os.fstat(descriptor), file)
    except OSError:
        return False


def test_without_a_path_they_are_a_processs_own() -> None:
    one, two = SharedNumbers(1, path=None), SharedNumbers(1, path=None)
    with one.lock, two.lock:
        one.values[0] = 5.0
    assert two.values[0] == 0.0
