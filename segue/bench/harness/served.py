"""A server to measure: `segue serve` as a process, and the memory and time of it and its worker."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any, NamedTuple

_READY = re.compile(r"segue is ready: http://([\d.]+):(\d+)")
_PROCESSES = "server processes "  # in the same line, followed by their ids
_KIB = 1024


class Served(NamedTuple):
    host: str
    port: int
    pid: int
    server_pids: tuple[int, ...] = ()  # of several server processes; one is the process itself

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """One request on a connection of its own; anything but a 200 ends the benchmark."""
        connection = HTTPConnection(self.host, self.port, timeout=3600)
        with contextlib.closing(connection):
            headers = {"content-type": "application/json"}
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read()
        if response.status != 200:
            raise SystemExit(f"{path}: {response.status} {text[:500]!r}")
        return json.loads(text)

    def worker_pid(self) -> int | None:
        """The child process with the most memory that serves no HTTP; None while there is none."""
        # Besides the worker there may be a small process of multiprocessing.
        children = [pid for pid in _children(self.pid) if pid not in self.server_pids]
        return max(children, key=_resident, default=None)

    def resident_bytes(self) -> dict[str, int]:
        """Resident memory of server and worker, where /proc exists."""
        return {name: sum(map(_resident, pids)) for name, pids in self._processes().items()}

    def cpu_seconds(self) -> dict[str, float]:
        """Processor time of server and worker, where /proc exists: independent of other processes."""
        return {name: sum(map(_cpu, pids)) for name, pids in self._processes().items()}

    def _processes(self) -> dict[str, tuple[int, ...]]:
        worker = self.worker_pid()
        found = {"server": (self.pid, *self.server_pids)}
        return found if worker is None else found | {"worker": (worker,)}


@contextlib.contextmanager
def served(*arguments: str) -> Iterator[Served]:
    # Its log is not read once it is ready, so it should hold little.
    quiet = ["--log-level", "warning"]
    command = [sys.executable, "-m", "segue", "serve", *quiet, *arguments, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        said: list[str] = []
        try:
            for line in process.stderr or ():
                said.append(line)
                if found := _READY.search(line):
                    listed = line.partition(_PROCESSES)[2].replace(",", " ").split()
                    several = tuple(int(word) for word in listed if word.isdigit())
                    yield Served(found[1], int(found[2]), process.pid, several)
                    return
            raise SystemExit(
                f"the server ended with {process.wait()} at its start:\n{''.join(said)}"
            )
        finally:
            process.terminate()


def _children(pid: int) -> list[int]:
    return [
        child
        for child in (int(name) for name in os.listdir("/proc") if name.isdigit())
        if _status(child).get("PPid") == str(pid)
    ]


def _resident(pid: int) -> int:
    return int(_status(pid).get("VmRSS", "0").split()[0]) * _KIB


def _cpu(pid: int) -> float:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="latin-1") as file:
        fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _status(pid: int) -> dict[str, str]:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="latin-1") as file:
        return {key: value.strip() for key, _, value in (row.partition(":") for row in file)}
    return {}
