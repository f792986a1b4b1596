"""Threads that step back, in a process of their own: what it has given up it may not get back."""

import os
import subprocess
import sys
import threading

import pytest

from segue.engine.constraints.threads import priority

STEPPING_BACK = """
import os, threading
from segue.engine.constraints.threads.priority import step_back

def rank() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

def run() -> None:
    step_back()
    print(rank())

before = os.nice(%d)
thread = threading.Thread(target=run)
thread.start()
thread.join()
assert rank() == before
print(before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")
@pytest.mark.parametrize("given_up", [0, 15, 19])
def test_a_thread_is_behind_its_process(given_up: int) -> None:
    """Also where that was started by `nice`: one that is no superuser's may not rise to where others step back to."""
    command = [sys.executable, "-c", STEPPING_BACK % given_up]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    behind, process = map(int, done.stdout.split())
    assert process < behind or process == behind == 19


def test_what_is_refused_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refuse, raising=False)
    priority.step_back()
    priority.step_back(threading.get_native_id())
