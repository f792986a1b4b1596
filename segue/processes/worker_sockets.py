"""The folder that server processes share, with the sockets where they reach the models' workers.

A file in it is locked as long as the server lives. So the next one finds the folders of servers that were killed.
The folder itself is locked too, which tells systemd-tmpfiles to leave it alone: the files of a server that runs for
weeks look old, and a server process that is started again would count and limit in new ones.
"""

import contextlib
import os
import shutil
import socket
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from segue.errors import SetupError

try:
    import fcntl
except ImportError:  # not on Windows, which has no server processes either
    fcntl = None  # type: ignore[assignment]

_PREFIX = "segue-"
_LOCK = "lock"
_MAX_PATH = 90  # bytes; a socket's path must be shorter than 104 on macOS, 108 on Linux


def check_system() -> None:
    """Raise SetupError where connections cannot be passed from process to process."""
    if not (hasattr(socket, "AF_UNIX") and hasattr(socket, "send_fds")):
        raise SetupError(
            "--server-processes must be 1 on this system: it has no Unix domain sockets that pass connections on"
        )


class WorkerSockets:
    """A context: the folder is there as long as it is open."""

    def __init__(self) -> None:
        check_system()
        folder = tempfile.mkdtemp(prefix=_PREFIX)  # for this user alone
        if len(os.fsencode(folder)) > _MAX_PATH:
            shutil.rmtree(folder)
            folder = tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp")
        self.folder = folder
        self._locks = (_locked(Path(folder)), _held(folder))
        _remove_left(Path(folder).parent)
        self.addresses: dict[str, str] = {}  # by model
        # Of the first model. It is there before the model has a name, for a worker that is started ahead.
        self.first = self._listening(0)
        self._socks = [self.first]

    def listen(self, model: str) -> socket.socket:
        """A listening socket for the workers of that model, one after another."""
        number = len(self.addresses)
        if number:
            self._socks.append(self._listening(number))
        self.addresses[model] = self._path(number)
        return self._socks[number]

    def _listening(self, number: int) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(self._path(number))
        sock.listen()
        return sock

    def _path(self, number: int) -> str:
        return str(Path(self.folder) / f"{number}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for sock in self._socks:
            sock.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        for lock in self._locks:
            os.close(lock)


def _locked(folder: Path) -> int:
    """A locked file in the folder. It gets its name only then, so that nobody finds it unlocked."""
    new = folder / f"{_LOCK}.new"
    lock = os.open(new, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    new.rename(folder / _LOCK)
    return lock


def _held(folder: str) -> int:
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def _remove_left(parent: Path) -> None:
    """Remove this user's folders there whose servers are gone without having removed them."""
    for folder in parent.glob(f"{_PREFIX}*"):
        # Suppressed where it is not ours, has no lock, is in use, or is being removed.
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid == os.getuid():
                lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
                finally:
                    os.close(lock)
