"""How tests learn that vLLM's own server is up. Without vLLM: by uvicorn, given a bound socket as vLLM gives it one."""

import logging
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.support.vllm.own_server import accepts, wait_for_server

if not hasattr(socket, "AF_UNIX"):
    pytest.skip("vLLM's server is reached by a Unix socket", allow_module_level=True)


@pytest.fixture
def address() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as place:  # its path is short enough for a socket
        yield f"{place}/socket"


@pytest.fixture
def bound(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(address)
        yield sock


async def app(scope: Any, receive: Any, send: Any) -> None:
    for what in ("startup", "shutdown"):
        assert (await receive())["type"] == f"lifespan.{what}"
        await send({"type": f"lifespan.{what}.complete"})


class Refusals(logging.Handler):
    """Whether connections were refused when the server said something, by what it said."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.seen: dict[str, bool] = {}
        self._address = address

    def emit(self, record: logging.LogRecord) -> None:
        self.seen[record.getMessage()] = not accepts(self._address)


def test_a_server_that_says_it_is_up_need_not_listen(address: str, bound: socket.socket) -> None:
    refusals = Refusals(address)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, log_level="info"))
    logger = logging.getLogger("uvicorn.error")
    logger.addHandler(refusals)
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    try:
        wait_for_server(address, thread.is_alive, Path("no log"))
        assert accepts(address)
    finally:
        server.should_exit = True
        thread.join()
        logger.removeHandler(refusals)
    assert refusals.seen["Application startup complete."]


def test_a_server_that_has_ended_is_not_waited_for(
    address: str, bound: socket.socket, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_text("out of memory")
    with pytest.raises(RuntimeError, match="out of memory"):
        wait_for_server(address, lambda: False, log)
