"""Processes that hang on the server end with it, however it ends."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from segue.distributed import parent_watch

# A server whose child would run for ever; it says the child's pid.
SERVER = """
import multiprocessing, sys, time
from segue.distributed import parent_watch

def run(ready):
    parent_watch.watch()
    ready.send(None)
    time.sleep(600)

if __name__ == "__main__":
    parent_watch.tie()
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=run, args=(theirs,))
    child.start()
    ours.recv()
    print(child.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_child_ends_with_its_server(is_killed: bool, tmp_path: os.PathLike[str]) -> None:
    script = os.path.join(tmp_path, "server.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(SERVER)
    path = os.pathsep.join(filter(None, (os.getcwd(), os.environ.get("PYTHONPATH"))))
    with subprocess.Popen(
        [sys.executable, script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    ) as server:
        assert server.stdout is not None
        assert int(server.stdout.readline())
        if is_killed:
            server.send_signal(signal.SIGKILL)
        else:
            assert server.stdin is not None
            server.stdin.close()
        # The child has inherited standard output: it is at its end once both are gone.
        assert server.stdout.read() == ""


def test_without_a_server_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEGUE_PARENT_WATCH", "1")
    parent_watch.watch()  # this process was not started by one that could be watched
    assert "parent-watch" not in {thread.name for thread in threading.enumerate()}
