import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from segue.errors import SetupError
from segue.processes.worker_sockets import WorkerSockets


@pytest.mark.skipif(not hasattr(socket, "send_fds"), reason="connections cannot be passed on here")
def test_the_folder_is_this_users_alone_and_goes_with_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 100)  # too long for a socket's path
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with WorkerSockets() as sockets:
        sockets.listen("tiny")
        sockets.listen("large")
        folder = Path(sockets.folder)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert len(set(sockets.addresses.values())) == 2
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(sockets.addresses["large"])
    assert not folder.exists()
    assert list(deep.iterdir()) == []


@pytest.mark.skipif(not hasattr(socket, "send_fds"), reason="connections cannot be passed on here")
def test_the_folder_is_locked_against_those_who_clean_up(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd-tmpfiles removes nothing in a folder that it cannot lock."""
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr("tempfile.tempdir", str(short))
    with WorkerSockets() as sockets:
        descriptor = os.open(sockets.folder, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with room for a socket's path."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


KILLED = """
import os, sys
from segue.processes.worker_sockets import WorkerSockets
sockets = WorkerSockets()
sockets.listen("tiny")
print(sockets.folder, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(socket, "send_fds"), reason="connections cannot be passed on here")
def test_the_folder_of_a_killed_server_goes_with_the_next_start_and_no_other(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(short))
    foreign = short / "segue-of-somebody"
    foreign.mkdir()
    environment = os.environ | {"TMPDIR": str(short), "PYTHONPATH": os.getcwd()}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdin=-1, stdout=-1, text=True, env=environment
    ) as server:
        assert server.stdout is not None
        left = Path(server.stdout.readline().strip())
        with WorkerSockets() as sockets:
            assert left.exists(), "its server lives"
            server.send_signal(signal.SIGKILL)
            server.wait()
            assert left.exists()
            with WorkerSockets():
                assert not left.exists()
                assert Path(sockets.folder).exists()
                assert foreign.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems' names are characters")
def test_the_folder_may_have_bytes_that_are_no_characters(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As any has that is not ASCII, where the locale is C and Python's mode of UTF-8 is off."""
    folder = short / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with WorkerSockets() as sockets:
        assert Path(sockets.folder).parent == folder
        sockets.listen("tiny")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(sockets.addresses["tiny"])


def test_a_system_that_cannot_pass_connections_on_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "send_fds", raising=False)
    with pytest.raises(SetupError, match="--server-processes must be 1 on this system"):
        WorkerSockets()
