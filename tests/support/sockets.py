"""Places for Unix sockets, whose paths must be short: pytest's own folders are too deep on some systems."""

import contextlib
import socket
import tempfile
from collections.abc import Iterator

import pytest

needs_unix_sockets = pytest.mark.skipif(
    not hasattr(socket, "AF_UNIX"), reason="no Unix sockets here"
)


@contextlib.contextmanager
def place(name: str = "s.sock") -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="segue-", dir="/tmp") as folder:
        yield f"{folder}/{name}"
