import socket
from pathlib import Path

import pytest

from segue.bench.harness.served import served


def test_a_server_that_does_not_start_says_how_it_ended_and_why() -> None:
    with (
        pytest.raises(SystemExit, match=r"(?s)ended with 1 .*no-such-file"),
        served("no-such-file.gguf"),
    ):
        pass


@pytest.mark.skipif(
    not (hasattr(socket, "send_fds") and Path("/proc").exists()),
    reason="there is one server process here, or processes cannot be listed",
)
def test_several_server_processes_count_as_the_server_and_none_as_the_worker() -> None:
    with served("--runner", "fake", "--server-processes", "2") as server:
        assert len(server.server_pids) == 2
        assert server.worker_pid() not in (None, server.pid, *server.server_pids)
        assert server.resident_bytes().keys() == {"server", "worker"}
