"""Running the application on a socket, from the first bind to the last drained request."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from segue.errors import SetupError

KEEP_ALIVE_S = 120  # longer than the pools of clients and proxies keep a connection
GRACE_S = 5  # for writing what remains once the engines have ended their requests


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on the fastest event loop there is."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:  # there is none for this platform
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        reason = error.strerror or f"{error}"
        raise SetupError(f"Cannot listen on {host} port {port}: {reason}.") from error


def address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """`await Server(...).serve([listener])` runs until SIGINT, SIGTERM or `should_exit`.

    `on_stop` is awaited once no new connections are accepted, while open requests still run: it
    should let them finish for at most `drain_s` and end the rest.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        on_stop: Callable[[], Awaitable[None]],
        drain_s: float = 0.0,
    ):
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=round(drain_s) + GRACE_S,
        )
        super().__init__(config)
        self._on_stop = on_stop

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Beside uvicorn's own wait for open requests, which would otherwise outlast its patience.
        stopping = asyncio.ensure_future(self._on_stop())
        await super().shutdown(sockets)
        await stopping
