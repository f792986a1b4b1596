"""Unix domain sockets to listen on: which one an address names, and a file that is there as long as it is listened to.

Whoever may write to the file may connect. So it gets what the umask leaves of reading and writing by owner and group:
with the usual one only the user who started the server connects, with 007 the group too, and others never.
"""

import contextlib
import os
import socket
import stat
import sys
from collections.abc import Iterator

from segue.errors import SetupError

try:
    import fcntl
except ImportError:  # not on Windows, which has no such sockets either
    fcntl = None  # type: ignore[assignment]

SCHEME = "unix:"
_ENDING = ".sock"  # by which llama.cpp's server knows one
_STARTS = ("/", "./", "../", "~")
_MAX_PATH = 107 if sys.platform == "linux" else 103  # bytes; of the system
_NOT_FOR_OTHERS = 0o660
_BACKLOG = 2048


def path_of(address: str) -> str | None:
    """The whole path of the socket that `address` names: unix:PATH, a path, or what ends in .sock. None: it is no such
    address."""
    if not (address.startswith((SCHEME, *_STARTS)) or address.endswith(_ENDING)):
        return None
    path = address.removeprefix(SCHEME)
    if path.startswith("//"):  # as a URL has it
        path = path[2:]
    return os.path.abspath(os.path.expanduser(path))


def shown(path: str) -> str:
    return f"{SCHEME}{path}"


def problem(path: str) -> str | None:
    """Why a server cannot listen there, or None."""
    if not hasattr(socket, "AF_UNIX"):
        return "this system has no Unix sockets; write an address, such as 127.0.0.1"
    if len(os.fsencode(path)) > _MAX_PATH:
        return f"the path of a Unix socket must be at most {_MAX_PATH} bytes"
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        return f"there is no folder {folder}"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"the folder {folder} cannot be written to"
    return _taken(path)


@contextlib.contextmanager
def listening(path: str) -> Iterator[socket.socket]:
    """A listening socket. Its file is removed at the end, if it is still this one. Raises SetupError."""
    listener = _bound(path)
    ours = _mark(path)
    try:
        yield listener
    finally:
        listener.close()
        with _alone(path):
            if ours is not None and _mark(path) == ours:
                os.unlink(path)


def _bound(path: str) -> socket.socket:
    with _alone(path):
        if told := problem(path):
            raise SetupError(f"Cannot listen on {shown(path)}: {told}.")
        listener = socket.socket(socket.AF_UNIX)
        try:
            with contextlib.suppress(FileNotFoundError):  # left by a server that was killed
                os.unlink(path)
            listener.bind(path)
            os.chmod(path, os.stat(path).st_mode & _NOT_FOR_OTHERS)
            listener.listen(_BACKLOG)  # nobody could connect before
        except OSError as error:
            listener.close()
            raise SetupError(f"Cannot listen on {shown(path)}: {error.strerror}.") from error
        return listener


def _taken(path: str) -> str | None:
    """What is there and must stay. A socket to which nobody listens need not."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return "a file is there that is no socket"
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)  # a server whose backlog is full is one
        try:
            client.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return None
        except BlockingIOError:
            pass
        except OSError as error:
            return (
                f"a socket is there, and whether anybody listens cannot be seen ({error.strerror})"
            )
    return "another server listens there"


@contextlib.contextmanager
def _alone(path: str) -> Iterator[None]:
    """While no other server looks whether the place is free, or frees it, as far as the file system has locks."""
    descriptor = None
    with contextlib.suppress(OSError):
        descriptor = os.open(os.path.dirname(path), os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _mark(path: str) -> tuple[int, ...] | None:
    """What tells this file from another that came to its place later: numbers of files are given again."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns
