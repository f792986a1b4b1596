"""One server over two nodes of Ray on this machine: the model split in two, or twice. A node or a worker may die."""

import importlib.util
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.end_to_end.vllm.test_parallel import arguments, check_text
from tests.support.models.tiny_hf import write_tiny_hf
from tests.support.models.tiny_reference import TinyReference
from tests.support.serving import Served, serving
from tests.support.vllm.ray_cluster import FURTHER, HEAD, Cluster, ray_cluster

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(1200),  # two nodes, and vLLM twice on them
    pytest.mark.skipif(
        not (importlib.util.find_spec("vllm") and importlib.util.find_spec("ray")),
        reason="vllm or ray is not installed: `make vllm-test` installs them and runs this",
    ),
    pytest.mark.skipif(
        sys.platform != "linux" or Path("/dev/nvidia0").exists(),
        reason="needs several loopback addresses, and vLLM for CPUs",
    ),
]
BY_RAY = "distributed_executor_backend=ray"
COPIES = ("data_parallel_backend=ray", "data_parallel_size=2", "data_parallel_size_local=1")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ray_cluster() as cluster:
        yield cluster


@pytest.fixture
def folder(
    cluster: Cluster, tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    settings = {"RAY_ADDRESS": cluster.address, "VLLM_HOST_IP": HEAD}
    settings |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}  # both nodes are on the same CPUs
    for name, value in (cluster.environment | settings).items():
        monkeypatch.setenv(name, value)
    return str(write_tiny_hf(tmp_path / "tiny", tiny_gguf, context=8192))


def worker_on(cluster: Cluster, node: str) -> int:
    """The id of vLLM's worker there: each node has one."""
    workers = {a.node: a.pid for a in cluster.actors() if a.name == "RayWorkerProc"}
    assert set(workers) == {HEAD, FURTHER}
    return workers[node]


def end_of_streams(served: Served, cluster: Cluster, node_is_lost: bool) -> str:
    """The last lines of streams under which the further node's worker is killed, or all of that node."""
    worker = worker_on(cluster, FURTHER)
    body = {"prompt": "the", "max_tokens": 8000, "ignore_eos": True, "stream": True, "n": 4}
    with (
        httpx2.Client(base_url=served.url, timeout=300) as client,
        client.stream("POST", "/v1/completions", json=body) as answer,
    ):
        lines = answer.iter_lines()
        next(lines)
        if node_is_lost:
            cluster.end(FURTHER)
        else:
            os.kill(worker, signal.SIGKILL)
        return "\n".join(list(lines)[-4:])


def wait_until_ready(served: Served) -> None:
    with httpx2.Client(base_url=served.url, timeout=300) as client:
        for is_over in (False, True):
            while (client.get("/readyz").status_code == 200) != is_over:
                time.sleep(0.1)


@pytest.mark.parametrize(
    ("options", "node_is_lost"),
    [
        ((BY_RAY, "tensor_parallel_size=2"), True),
        (COPIES, False),
    ],
    ids=["tensors", "copies"],
)
def test_two_nodes_of_ray(
    folder: str, tiny_gguf: Path, cluster: Cluster, options: tuple[str, ...], node_is_lost: bool
) -> None:
    reference = TinyReference(tiny_gguf)
    with serving(folder, *arguments(*options, context=8192)) as served:
        check_text(served, reference)
        assert "engine_died" in end_of_streams(served, cluster, node_is_lost)
        if node_is_lost:
            cluster.start(FURTHER)
        wait_until_ready(served)
        check_text(served, reference)
        assert worker_on(cluster, FURTHER)
