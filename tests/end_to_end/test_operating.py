"""The server as its operator starts, watches and stops it: a process of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.serving import Served, serving
from tests.support.waiting import PATIENCE_S, wait_until

SECRET = "s3cret-0123456789abcdef"
TOKEN = "hf_t0ken-0123456789"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEGUE_API_KEY", f"ada:{SECRET}")
        patch.setenv("HF_TOKEN", TOKEN)
        with serving("--runner", "fake", "--log-level", "debug") as served:
            yield served


def test_keys_are_never_said(guarded: Served) -> None:
    headers = {"authorization": f"Bearer {SECRET}"}
    with httpx2.Client(base_url=guarded.url, timeout=PATIENCE_S) as client:
        answers = [
            client.post("/v1/completions", json={"prompt": "a"}, headers=headers),
            client.post("/v1/completions", json={"prompt": "a"}, headers={"x-api-key": "no"}),
            client.get("/health"),
            client.get("/props", headers=headers),
            client.get("/metrics", headers=headers),
            client.get("/" + SECRET[:3], headers=headers),
        ]
    assert [answer.status_code for answer in answers[:3]] == [200, 401, 200]
    # A thread writes the log.
    wait_until(lambda: sum("segue.access" in line for line in guarded.log) >= len(answers))
    said = "".join(guarded.log) + "".join(f"{a.headers} {a.text}" for a in answers)
    assert "key=ada" in said
    assert SECRET not in said
    assert TOKEN not in said
    if Path("/proc").exists():
        shown = Path(f"/proc/{guarded.process.pid}/cmdline").read_text("latin-1")
        assert SECRET not in shown


def test_keys_are_not_printed_with_the_settings() -> None:
    command = [sys.executable, "-m", "segue", "serve", "--print-config", "--api-key", SECRET]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "max_queue" in printed.stdout
    assert SECRET not in printed.stdout + printed.stderr


def test_a_bad_key_is_not_repeated() -> None:
    command = [sys.executable, "-m", "segue", "serve", "--runner", "fake", "--api-key"]
    ran = subprocess.run([*command, f"{SECRET} x"], capture_output=True, text=True)
    assert ran.returncode == 1
    assert "an API key must be" in ran.stderr
    assert SECRET not in ran.stderr


def test_open_to_the_network_without_keys_is_said_loudly(
    guarded: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SEGUE_API_KEY")
    with serving("--runner", "fake", "--host", "0.0.0.0") as served:
        pass
    assert any("ANYBODY" in line for line in served.log)
    assert served.process.returncode == 0
    assert not any("ANYBODY" in line for line in guarded.log)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads /proc")
def test_one_port_is_open_and_no_other(guarded: Served) -> None:
    """Nothing of the server listens but where it said so: no control port, no port of a library."""
    inodes: set[str] = set()
    pids = [guarded.process.pid, *children(guarded.process.pid)]
    assert len(pids) >= 2
    for pid in pids:
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it has been closed
                target = os.readlink(fd)
                inodes |= {target[8:-1]} if target.startswith("socket:[") else set()
    listening = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp", "/proc/net/udp6"):
        for line in (
            Path(table).read_text("latin-1").splitlines()[1:] if Path(table).exists() else ()
        ):
            fields = line.split()
            if fields[9] in inodes and (fields[3] == "0A" or "udp" in table):
                listening.add(int(fields[1].rpartition(":")[2], 16))
    assert listening == {int(guarded.url.rpartition(":")[2])}


def children(pid: int) -> list[int]:
    stats = [p / "stat" for p in Path("/proc").iterdir() if p.name.isdigit()]
    found = []
    for stat in stats:
        try:
            fields = stat.read_text("latin-1").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


LOADING = """
import time
from dataclasses import dataclass
from segue import config
from segue.assembly import fleet as assembly, server as serving
from segue.dialects import DIALECTS
from segue.engine.process.fleet import Fleet, Member
from segue.server.transport import listen
from segue.server.app import create_app

@dataclass(frozen=True)
class SlowLoader:
    def __call__(self):
        print("loading", flush=True)
        time.sleep(600)

def fetch():
    print("fetching", flush=True)
    time.sleep(600)

if __name__ == "__main__":
    settings = config.load({"drain_timeout_s": 1.0})
    make = {MAKE}
    fleet = Fleet([Member("x", (), assembly._starter(settings, make))])
    server = listen.Server(
        create_app(fleet, DIALECTS),
        on_stop=fleet.close,
        drain_s=1.0,
        write_timeout_s=30.0,
        takes_signals=True,
    )
    listen.run(serving._serve(server, listen.bind("127.0.0.1", 0), fleet, settings))
"""


@pytest.mark.parametrize("make", ["fetch", "SlowLoader"])
def test_stopped_while_it_fetches_or_loads(tmp_path: Path, make: str) -> None:
    """Exit code 0, soon, and nobody stays behind: the pipe that all of them hold comes to its end."""
    program = tmp_path / "loading.py"
    program.write_text(LOADING.replace("{MAKE}", make))
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    with subprocess.Popen(
        [sys.executable, str(program)], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == b""
        assert process.wait(PATIENCE_S) == 0
        assert time.monotonic() - begun < PATIENCE_S, "it did not wait for what it loads"


def test_no_worker_outlives_a_killed_server() -> None:
    """Also one that is in the middle of its work."""
    with serving("--runner", "fake", "--context-length", "60000") as served:
        body = {"prompt": "a", "stream": True, "max_tokens": 59_000, "logit_bias": {"256": -100}}
        with (
            httpx2.Client(base_url=served.url, timeout=PATIENCE_S) as client,
            client.stream("POST", "/v1/completions", json=body) as answer,
        ):
            next(answer.iter_bytes())
            workers = children(served.process.pid)
            assert workers
            served.process.kill()
            served.process.wait(PATIENCE_S)
    wait_until(lambda: not any(is_alive(pid) for pid in workers))


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_every_line_of_a_json_log_is_json() -> None:
    with serving("--runner", "fake", "--log-format", "json", "--log-level", "warning") as served:
        httpx2.get(f"{served.url}/nothing", timeout=PATIENCE_S)
    (ready,) = map(json.loads, served.log)  # at a level that leaves out everything else
    assert ready["message"].startswith(f"segue is ready: {served.url} ")
    with serving("--runner", "fake", "--log-format", "json") as served:
        command = [sys.executable, "-m", "segue", "serve", "--runner", "fake"]
        command += ["--log-format", "json", "--port", served.url.rpartition(":")[2]]
        failed = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert all(map(json.loads, served.log))
    (reason,) = map(json.loads, failed.stderr.splitlines())
    assert reason["level"] == "critical"
    assert "Address already in use" in reason["message"]
    assert failed.returncode == 1


def test_stopping_never_waits_for_a_log_reader() -> None:
    """Its standard error is a pipe that nobody reads and that is full."""
    command = [sys.executable, "-m", "segue", "serve", "--port", "0", "--runner", "fake"]
    with subprocess.Popen(
        [*command, "--log-level", "debug"], stderr=subprocess.PIPE, pipesize=4096
    ) as process:
        assert process.stderr is not None
        url = ""
        while not url:
            line = process.stderr.readline().decode()
            url = line.split()[3] if line.startswith("segue is ready:") else ""
        with httpx2.Client(base_url=url, timeout=PATIENCE_S) as client:
            path = "/" + "x" * 200  # the log's lines hold it
            for _ in range(300):  # enough for 64 KiB, where a pipe cannot be made small
                client.get(path)
            assert client.get("/livez").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
