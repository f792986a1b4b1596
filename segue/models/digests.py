"""The SHA-256 of a model's file: computed in parallel with loading, and cached until the file changes.

<cache>/digests/<SHA-256 of the path>    size, times of change, digest
"""

import contextlib
import hashlib
import os
import threading
from concurrent.futures import Future
from pathlib import Path

from segue.errors import ModelUnavailable


def known_digest(path: Path | str, cache_dir: Path | str) -> str:
    """The digest, if it was computed before and the file has not changed since; else an empty text."""
    kept = _Kept(path, cache_dir)
    with contextlib.suppress(OSError):
        return kept.read(kept.state()) or ""
    return ""


class FileDigest:
    """Starts hashing at once, in its own thread; hashing releases the interpreter lock."""

    def __init__(self, path: Path | str, cache_dir: Path | str):
        self._kept = _Kept(path, cache_dir)
        self._begun = ""  # the file's state; it stays empty for a file that is not there
        with contextlib.suppress(OSError):
            self._begun = self._kept.state()
        self._found: Future[str] = Future()
        threading.Thread(target=self._find, name="digest", daemon=True).start()

    def wait(self) -> str:
        """The digest, once it is computed. Raises OSError if the file cannot be read.

        Raises ModelUnavailable if the file was changed since this object was made: what others read of it meanwhile
        need not be what the digest is of.
        """
        found = self._found.result()
        with contextlib.suppress(FileNotFoundError):  # gone since, but nothing is in its place
            if self._kept.state() != self._begun and self._hash() != found:
                raise ModelUnavailable(f"{self._kept.path} was changed while it was read")
        return found

    def _find(self) -> None:
        try:
            found = self._kept.read(self._begun) or self._hash()
            if self._kept.state() == self._begun:
                self._kept.keep(self._begun, found)
            self._found.set_result(found)
        except BaseException as error:
            self._found.set_exception(error)

    def _hash(self) -> str:
        with self._kept.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


class _Kept:
    """The place in the cache for the digest of one file."""

    def __init__(self, path: Path | str, cache_dir: Path | str):
        self.path = Path(path).resolve()
        name = hashlib.sha256(os.fsencode(self.path)).hexdigest()
        self._place = Path(cache_dir) / "digests" / name[:32]

    def state(self) -> str:
        """What differs once the file was changed or replaced.

        Two models of one shape have the same size, and archives and images of containers give all files one time of
        modification; when a file came to its place is the system's to say.
        """
        status = self.path.stat()
        return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"

    def read(self, state: str) -> str | None:
        with contextlib.suppress(OSError, ValueError):
            known, digest = self._place.read_text().rsplit(" ", 1)
            if known == state and len(bytes.fromhex(digest)) == 32:
                return digest
        return None

    def keep(self, state: str, digest: str) -> None:
        with contextlib.suppress(
            OSError
        ):  # full or read-only folder: it is computed again next time
            self._place.parent.mkdir(parents=True, exist_ok=True)
            making = self._place.with_name(f"{self._place.name}.{os.getpid()}")
            making.write_text(f"{state} {digest}")
            making.replace(self._place)
