"""A further node of vLLM: known by its rank, ending with the first one. More in end_to_end/vllm/test_parallel.py."""

import os
import signal
import socket
import threading

import pytest

from segue import config
from segue.assembly.fleet import further_node
from segue.distributed import node
from segue.distributed.node import is_further_node
from tests.support.waiting import PATIENCE_S


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), False),
        (("nnodes=2",), False),
        (("nnodes=2", "node_rank=0"), False),
        (("nnodes=2", "node_rank=1"), True),
        (("node-rank = 3",), True),
        (("node_rank=1", "node_rank=0"), False),
    ],
)
def test_a_further_node_is_known_by_its_rank(options: tuple[str, ...], expected: bool) -> None:
    assert is_further_node(options) is expected


def test_only_vllm_has_further_nodes() -> None:
    settings = config.load({"vllm_options": ("node_rank=1",)})
    assert further_node(settings) is None


def test_it_ends_with_the_first_node(monkeypatch: pytest.MonkeyPatch) -> None:
    signals: list[tuple[int, int]] = []
    has_ended = threading.Event()

    def kill(pid: int, number: int) -> None:
        signals.append((pid, number))
        has_ended.set()

    monkeypatch.setattr("os.kill", kill)
    with socket.create_server(("127.0.0.1", 0)) as first:
        node.end_with(*first.getsockname())
        accepted, _ = first.accept()
        assert not has_ended.is_set()
        accepted.close()
        assert has_ended.wait(PATIENCE_S)
    assert signals == [(os.getpid(), signal.SIGTERM)]
