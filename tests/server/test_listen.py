import socket

import pytest

from segue.errors import SetupError
from segue.server.listen import address, bind
from segue.types import Delta, Failed, Prompted
from tests.fakes import Pause
from tests.server.conftest import Live


def test_port_in_use_is_said_plainly() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert address(taken) == f"http://127.0.0.1:{port}"
        with pytest.raises(SetupError, match=f"Cannot listen on 127.0.0.1 port {port}"):
            bind("127.0.0.1", port)


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6_address() -> None:
    with bind("::1", 0) as listener:
        assert address(listener) == f"http://[::1]:{listener.getsockname()[1]}"


def test_stopping_ends_open_streams_with_an_event() -> None:
    """A deploy must not cut a stream silently: it ends while the socket is still open."""
    pause = Pause()
    end = Failed("unavailable", "shutting down")
    live = Live(lambda _: [Prompted(0, (1,), 0), Delta(0, "one", (1,)), pause, end])

    async def close(drain_s: float = 0.0) -> None:
        pause.go.set()

    live.on_stop = close
    body = {"prompt": "a", "stream": True}
    with live.client.stream("POST", "/v1/completions", json=body) as answer:
        lines = answer.iter_lines()
        assert '"one"' in next(lines)
        live.ask_to_stop()
        rest = [line for line in lines if line]
    live.stop()
    assert "shutting down" in rest[0]
    assert rest[1] == "data: [DONE]"
