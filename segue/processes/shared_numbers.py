"""Numbers that several processes share: a file that all of them map, with a lock that a dead process cannot keep."""

import contextlib
import mmap
import os
import weakref
from types import TracebackType

_BYTES = 8


class FileLock:
    """An advisory lock on a file: the system releases it if the process ends. The file is closed with the lock."""

    def __init__(self, descriptor: int) -> None:
        import fcntl  # there are several processes only where it exists

        self._flock = fcntl.flock
        self._take, self._release = fcntl.LOCK_EX, fcntl.LOCK_UN
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor).atexit = False

    def __enter__(self) -> None:
        self._flock(self._descriptor, self._take)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._flock(self._descriptor, self._release)


class SharedNumbers:
    """`values` holds floats, 0 at first. Without a path they are this process's own, and the lock is none.

    The lock is not reentrant, and is for one thread of each process.
    """

    def __init__(self, size: int, path: str | None) -> None:
        self.lock: contextlib.AbstractContextManager[None]
        self.values: memoryview[float]
        if path is None:
            self.lock = contextlib.nullcontext()
            self.values = memoryview(bytearray(size * _BYTES)).cast("d")
            return
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(descriptor, size * _BYTES)
        self.lock = FileLock(descriptor)
        self.values = memoryview(mmap.mmap(descriptor, size * _BYTES)).cast("d")
