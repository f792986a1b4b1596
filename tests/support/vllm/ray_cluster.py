"""Two nodes of Ray on this machine, with a loopback address each. All that they started ends with the test."""

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# Ray replaces 127.0.0.1 by an address of the machine; vLLM tells nodes apart by their addresses.
HEAD, FURTHER = "127.0.0.2", "127.0.0.3"
_PLUGIN = "[vllm.platform_plugins]\nray_on_cpus = tests.support.vllm.ray_platform:name\n"
_MEMORY = 100 << 20  # of a node's object store, in bytes: vLLM sends little through it
_ACTORS = """
import json, sys, ray
from ray._private.state import actors
ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
alive = [actor for actor in actors().values() if actor["State"] == "ALIVE"]
print(json.dumps([[a["ActorClassName"], a["Address"]["IPAddress"], a["Pid"]] for a in alive]))
"""


@dataclass(frozen=True)
class Actor:
    name: str  # of its class
    node: str  # address
    pid: int


@dataclass(frozen=True)
class Cluster:
    address: str
    folder: Path
    environment: dict[str, str]  # of its processes, and of a server that uses it
    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, node: str) -> None:
        port, other = self.address.partition(":")[2], _free_port(HEAD)
        head = ("--head", f"--port={port}", f"--ray-client-server-port={other}")
        head_only = (f"--temp-dir={self.folder}", "--include-dashboard=false")
        place = (*head, *head_only) if node == HEAD else (f"--address={self.address}",)
        command = (
            *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *place),
            *(f"--node-ip-address={node}", f"--object-store-memory={_MEMORY}"),
            *("--num-cpus=2", "--num-gpus=1", "--min-worker-port=0", "--max-worker-port=0"),
        )
        environment = self.environment | {"VLLM_HOST_IP": node}
        with open(self.folder / f"{node}.log", "wb") as log:
            self.nodes[node] = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
        self._wait_for(self.nodes[node], node)

    def end(self, node: str) -> None:
        """As if its machine had lost power: Ray's process of the node is killed, and the rest of it ends."""
        [pid] = [
            pid
            for pid, command in _processes(self.folder)
            if command[0].endswith("raylet") and f"--node_ip_address={node}" in command
        ]
        os.kill(pid, signal.SIGKILL)
        self.nodes[node].wait(60)

    def actors(self) -> list[Actor]:
        command = [sys.executable, "-c", _ACTORS, self.address]
        told = subprocess.run(
            command, env=self.environment, capture_output=True, check=True, text=True
        )
        return [Actor(*each) for each in json.loads(told.stdout.splitlines()[-1])]

    def _wait_for(self, process: subprocess.Popen[bytes], node: str) -> None:
        log = self.folder / f"{node}.log"
        while "Ray runtime started" not in log.read_text("utf-8"):
            if process.poll() is not None:
                raise RuntimeError(f"a node of Ray did not start:\n{log.read_text('utf-8')}")
            time.sleep(0.1)


@contextlib.contextmanager
def ray_cluster() -> Iterator[Cluster]:
    # Not pytest's folder: the paths of Ray's sockets must be short.
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    environment = os.environ | {
        "RAY_TMPDIR": str(folder),
        "RAY_USAGE_STATS_ENABLED": "0",
        # Ray listens on every address unless that is 127.0.0.1.
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "AUTOSCALER_METRIC_PORT": str(_free_port("127.0.0.1")),
        "PYTHONPATH": os.pathsep.join((str(_written_plugin(folder)), os.getcwd())),
    }
    cluster = Cluster(f"{HEAD}:{_free_port(HEAD)}", folder, environment)
    try:
        cluster.start(HEAD)
        cluster.start(FURTHER)
        yield cluster
    finally:
        for process in cluster.nodes.values():
            process.terminate()
        _end_processes(folder)
        for process in cluster.nodes.values():
            process.wait()
        shutil.rmtree(folder)


def _written_plugin(folder: Path) -> Path:
    """A folder for PYTHONPATH: in every process with it, vLLM finds the platform of `ray_platform.py`."""
    metadata = folder / "plugins" / "ray_on_cpus-0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: ray_on_cpus\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text(_PLUGIN)
    return metadata.parent


def _free_port(address: str) -> int:
    with socket.create_server((address, 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _processes(folder: Path) -> list[tuple[int, list[str]]]:
    """Ids and command lines of all processes that were started for the cluster in this folder."""
    mark, found = f"RAY_TMPDIR={folder}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int(process.name) != os.getpid() and mark in (process / "environ").read_bytes():
                command = (process / "cmdline").read_text(errors="replace").split("\0")
                found.append((int(process.name), command))
        except OSError:  # it has ended, or is not ours
            continue
    return found


def _end_processes(folder: Path) -> None:
    """Wait until all have ended, and kill what has not after a while."""
    deadline = time.monotonic() + 30
    while left := _processes(folder):
        if time.monotonic() > deadline:
            for pid, _ in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
