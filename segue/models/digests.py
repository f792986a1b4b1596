"""The SHA-256 of a model's files: computed in parallel with loading, and cached until a file changes.

<cache>/digests/<SHA-256 of the path>    size, times of change, digest
"""

import contextlib
import hashlib
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from segue.errors import ModelUnavailable


def known_digest(paths: Sequence[Path | str], cache_dir: Path | str) -> str:
    """The digest, if it was computed before and no file has changed since; else an empty text."""
    digests = [_Kept(path, cache_dir).known() for path in paths]
    return joined(digests) if all(digests) else ""


def joined(digests: Sequence[str]) -> str:
    """The digest of a model: that of its file; if it is split, of the list of its files' digests, a line for each."""
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(f"{digest}\n" for digest in digests).encode()).hexdigest()


class FilesDigest:
    """Starts hashing at once, in a thread of its own, one file after another; hashing releases the interpreter lock."""

    def __init__(self, paths: Sequence[Path | str], cache_dir: Path | str):
        self._files = [_Kept(path, cache_dir) for path in paths]
        self._begun = [""] * len(paths)  # the files' states; empty for a file that is not there
        for i, file in enumerate(self._files):
            with contextlib.suppress(OSError):
                self._begun[i] = file.state()
        self._found: Future[list[str]] = Future()
        threading.Thread(target=self._find, name="digest", daemon=True).start()

    def wait(self) -> str:
        """The digest, once it is computed. Raises OSError if a file cannot be read.

        Raises ModelUnavailable if one was changed since this object was made: what others read of it meanwhile need
        not be what the digest is of.
        """
        found = self._found.result()
        for file, begun, digest in zip(self._files, self._begun, found, strict=True):
            with contextlib.suppress(FileNotFoundError):  # gone since, but nothing is in its place
                if file.state() != begun and file.hash() != digest:
                    raise ModelUnavailable(f"{file.path} was changed while it was read")
        return joined(found)

    def _find(self) -> None:
        try:
            pairs = zip(self._files, self._begun, strict=True)
            self._found.set_result([file.find(begun) for file, begun in pairs])
        except BaseException as error:
            self._found.set_exception(error)


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

    def known(self) -> str:
        """The digest that is kept, if it is of the file as it is now."""
        with contextlib.suppress(OSError):
            return self.read(self.state()) or ""
        return ""

    def find(self, begun: str) -> str:
        """The digest: kept, or computed and then kept. `begun`: the state that the file had."""
        found = self.read(begun) or self.hash()
        if self.state() == begun:
            self.keep(begun, found)
        return found

    def hash(self) -> str:
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def read(self, state: str) -> str | None:
        with contextlib.suppress(OSError, ValueError):
            known, digest = self._place.read_text("utf-8").rsplit(" ", 1)
            if known == state and len(bytes.fromhex(digest)) == 32:
                return digest
        return None

    def keep(self, state: str, digest: str) -> None:
        # In a full or read-only folder it is not kept, and computed again next time.
        with contextlib.suppress(OSError):
            self._place.parent.mkdir(parents=True, exist_ok=True)
            making = self._place.with_name(f"{self._place.name}.{os.getpid()}")
            making.write_text(f"{state} {digest}")
            making.replace(self._place)
