"""Machine code, kept in the cache folder between starts and linked into this process.

    <cache>/cpu/<key>.code    the SHA-256 of the key and of what follows, then an object file or a note

A note has the keys of all that one kind of model needs on one kind of processor.

A damaged entry is compiled again. If the folder cannot be written (read-only, full), code is compiled at each start,
once: the process that compiles it hands it to the worker in memory.
"""

import contextlib
import hashlib
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

log = logging.getLogger("segue")

_DIGEST_BYTES = 32
_STEP_SOURCES = (
    "emit.py",
    "kernel.py",
    "compile.py",
    "draws/phase.py",
    "draws/records.py",
    "step/**/*.py",
    "translation/*.py",
    "products/**/*.py",
)
_KEPT_S = 60 * 86400  # unused entries are deleted after this time
_LONGEST_WAIT_S = 60  # for another process that compiles the same code

_unwritten: dict[str, bytes] = {}  # by the path of the entry: code that could not be written there


def unwritten() -> tuple[tuple[str, bytes], ...]:
    """What this process compiled and could not keep, for a process that it starts."""
    return tuple(_unwritten.items())


def take_unwritten(entries: Iterable[tuple[str, bytes]]) -> None:
    """What the process that started this one could not keep."""
    _unwritten.update(entries)


def sources() -> list[Path]:
    """The files that a step's machine code depends on."""
    root = Path(__file__).parent
    return sorted(path for pattern in _STEP_SOURCES for path in root.glob(pattern))


@cache
def sources_digest() -> str:
    """A digest of the sources of a step's kernels and the versions of llvmlite and Python."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sources():
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    for text in (version("llvmlite"), sys.version):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:32]


def _digest(key: str, code: bytes) -> bytes:
    """With the key, so that code under another name is not called: it need not have the functions looked for."""
    return hashlib.sha256(key.encode() + b"\0" + code).digest()


class KeptCode:
    """Implements the protocol `Kept` of products/machine_code.py."""

    def __init__(self, cache_dir: Path | str, on_missing: Callable[[], object] = lambda: None):
        """`on_missing` is called, maybe by several threads, before code is compiled or waited for."""
        self._folder = Path(cache_dir) / "cpu"
        self._on_missing = on_missing
        self._used: set[str] = set()

    def has_all(self, name: str) -> bool:
        """Whether everything that was noted under the name is there."""
        keys = self._read(name)
        return keys is not None and all(
            self._read(key) is not None for key in keys.decode().split()
        )

    def note(self, name: str) -> None:
        """Note under the name what was used until now. Without a note it is only looked for again."""
        with contextlib.suppress(OSError):
            self._put(name, " ".join(sorted(self._used)).encode())

    def __call__(self, key: str, make: Callable[[], bytes]) -> bytes:
        """The code under the key; `make` compiles it if it is missing, once for all processes that start together."""
        self._used.add(key)
        code = self._read(key)
        if code is not None:
            return code
        self._on_missing()
        with self._only_one(key):
            code = self._read(key)  # another process may have written it meanwhile
            if code is None:
                code = make()
                self._write(key, code)
        return code

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.code"

    def _read(self, key: str) -> bytes | None:
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return _unwritten.get(str(path))
        digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if _digest(key, code) != digest:
            return _unwritten.get(str(path))
        with contextlib.suppress(OSError):  # the folder may be read-only
            os.utime(path)
        return code

    def _write(self, key: str, code: bytes) -> None:
        try:
            self._put(key, code)
        except OSError as error:
            if not _unwritten:
                reason = error.strerror or error
                log.warning("compiled code cannot be kept in %s (%s)", self._folder, reason)
            _unwritten[str(self._path(key))] = code

    def _put(self, key: str, code: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._folder, prefix=".making-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_digest(key, code) + code)
            os.replace(name, self._path(key))
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
        self._forget_old()

    def _forget_old(self) -> None:
        before = time.time() - _KEPT_S
        for path in self._folder.iterdir():
            # Another process may have renamed or deleted it.
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < before:
                    path.unlink()

    @contextlib.contextmanager
    def _only_one(self, key: str) -> Iterator[None]:
        from filelock import FileLock  # a twentieth of a second, and needed only to compile

        lock = FileLock(self._folder / f"{key}.lock", timeout=_LONGEST_WAIT_S)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except (OSError, TimeoutError):  # without the lock, several processes may compile it
            yield
            return
        try:
            yield
        finally:
            lock.release()
