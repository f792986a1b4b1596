"""The folder that server processes share, with the sockets where they reach the models' workers."""

import shutil
import socket
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from segue.errors import SetupError

_MAX_PATH = 90  # bytes; a socket's path must be shorter than 104 on macOS, 108 on Linux


def check_system() -> None:
    """Raise SetupError where connections cannot be passed from process to process."""
    if not (hasattr(socket, "AF_UNIX") and hasattr(socket, "send_fds")):
        raise SetupError(
            "--server-processes must be 1 on this system: it has no Unix domain sockets that pass connections on"
        )


class Doors:
    """A context: the folder is there as long as it is open."""

    def __init__(self) -> None:
        check_system()
        folder = tempfile.mkdtemp(prefix="segue-")  # for this user alone
        if len(folder.encode()) > _MAX_PATH:
            shutil.rmtree(folder)
            folder = tempfile.mkdtemp(prefix="segue-", dir="/tmp")
        self.folder = folder
        self.addresses: dict[str, str] = {}  # by model
        self._socks: list[socket.socket] = []

    def open(self, model: str) -> socket.socket:
        """A listening socket for the workers of that model, one after another."""
        path = str(Path(self.folder) / f"{len(self._socks)}")
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(path)
        sock.listen()
        self._socks.append(sock)
        self.addresses[model] = path
        return sock

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
