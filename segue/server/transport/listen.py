"""Runs the application on a socket, from bind to the end of the drain."""

import asyncio
import contextlib
import errno
import functools
import logging
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any, cast

import uvicorn
from starlette.applications import Starlette

from segue import unix_socket
from segue.errors import SetupError
from segue.server.transport.connection import Connection

log = logging.getLogger("segue")

KEEP_ALIVE_S = 120  # longer than clients and proxies keep idle connections in their pools
GRACE_S = 5  # for writing the last answers after the engines have ended their requests
HURRY_S = 1.0  # the same after a second signal
SPARE_FILES = 64  # file descriptors reserved for everything but connections
LEAST_FILES = 32  # of a server with one model and one connection
IN_USE = "Choose another with --port; 0 takes a free one"
_ADVICE = {
    errno.EADDRINUSE: IN_USE,
    errno.EADDRNOTAVAIL: "This machine has no such address; 127.0.0.1 is reached from here alone, 0.0.0.0 is every one",
    socket.EAI_NONAME: "No address has this name; 127.0.0.1 is reached from here alone, 0.0.0.0 is every one",
    errno.EACCES: "Ports below 1024 are for administrators: choose another with --port",
}
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on the fastest event loop that is installed."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:  # not available for this platform
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. `::` is every address of both families, as in other servers."""
    if "," in host:
        raise SetupError(
            f"Cannot listen on {host}: a server has one address, and :: is every one of both families."
        )
    is_v6 = ":" in host
    family = socket.AF_INET6 if is_v6 else socket.AF_INET
    is_dual = is_v6 and socket.has_dualstack_ipv6()
    try:
        return socket.create_server(
            (host, port), family=family, backlog=2048, dualstack_ipv6=is_dual
        )
    except OSError as error:
        # strerror repeats the address; the number of a name that is not found is below 0 and another list's.
        number = error.errno or 0
        said = os.strerror(number) if number > 0 else error.strerror or f"{error}"
        reason = said.partition(" (while ")[0]
        hint = f" {_ADVICE[number]}." if number in _ADVICE else ""
        raise SetupError(f"Cannot listen on {host} port {port}: {reason}.{hint}") from error


def listening(host: str, port: int) -> AbstractContextManager[socket.socket]:
    """A listening socket of any kind, as long as the context is open."""
    path = unix_socket.path_of(host)
    return bind(host, port) if path is None else unix_socket.listening(path)


def address(listener: socket.socket) -> str:
    if _is_local(listener):
        return unix_socket.shown(listener.getsockname())
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_local(sock: socket.socket) -> bool:
    """Whether it is a Unix socket."""
    return sock.family == getattr(socket, "AF_UNIX", None)


def _max_connections() -> int:
    """The limit of open files, less the reserve; beyond it accept() would fail for every client. Raises SetupError
    where not even the server itself can have its files."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return 2**31
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    if soft == resource.RLIM_INFINITY:
        return 2**31
    if soft < LEAST_FILES:
        raise SetupError(f"Only {soft} files may be open, and a server needs more (ulimit -n).")
    return max(soft - SPARE_FILES, 1)


class Server(uvicorn.Server):
    """`await Server(...).serve([listener])` runs until SIGINT, SIGTERM or `should_exit`.

    `on_stop(drain_s)` is awaited once no new connections are accepted, while open requests still run: it should let
    them finish for at most that long and end the rest. A second signal calls it again, with 0. `takes_signals` False:
    signals are left alone, and `stop` is called instead.
    """

    def __init__(
        self,
        app: Starlette,
        *,
        on_stop: Callable[[float], Awaitable[None]],
        drain_s: float,
        write_timeout_s: float,
        takes_signals: bool,
    ):
        connection: Any = functools.partial(
            Connection,
            admission=app.state.admission,
            write_timeout_s=write_timeout_s,
            max_connections=_max_connections(),
        )
        config = uvicorn.Config(
            app,
            http=connection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=round(drain_s) + 2 * GRACE_S,  # _drain needs less
        )
        super().__init__(config)
        self._on_stop = on_stop
        self._drain_s = drain_s
        self._hurry = asyncio.Event()
        self._takes_signals = takes_signals
        self._taking: set[asyncio.Task[None]] = set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Without uvicorn's re-raise of the signal at the end, which would turn a clean exit into a death by signal."""
        if not self._takes_signals or threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()

        def handle(number: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(self.stop)

        before = {number: signal.signal(number, handle) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def take(self, sock: socket.socket) -> None:
        """Serve a connection that another process accepted."""
        task = asyncio.ensure_future(self._take(sock))
        self._taking.add(task)
        task.add_done_callback(self._taking.discard)

    async def _take(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        with contextlib.suppress(OSError):  # the client is gone already
            if not _is_local(sock):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, sock)

    def _protocol(self) -> asyncio.Protocol:
        make: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    def stop(self) -> None:
        """Drain and end. A second call shortens the drain."""
        if self.should_exit:
            self._hurry.set()
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._drain_s and (num_running := len(self.server_state.tasks)):
            log.info(
                "stopping: running requests (%d) have %g s to finish; a second signal ends them",
                num_running,
                self._drain_s,
            )
        # In parallel with uvicorn's own wait for open requests, which would otherwise time out.
        stopping = asyncio.ensure_future(self._drain(self._drain_s, GRACE_S))
        hurrying = asyncio.ensure_future(self._stop_now())
        await super().shutdown(sockets)
        await stopping
        hurrying.cancel()

    async def _drain(self, seconds: float, last_s: float) -> None:
        """Let running requests finish, then refuse requests whose body is not complete. Clients have `last_s` to
        read what was written."""
        await self._on_stop(seconds)
        for connection in self._connections:
            connection.stop_reading()
        asyncio.get_running_loop().call_later(last_s, self._drop_all)

    def _drop_all(self) -> None:
        """Not left to uvicorn, which would cancel their requests in the middle: each would be an error in the log."""
        for connection in self._connections:
            connection.transport.abort()

    @property
    def _connections(self) -> list[Connection]:
        return cast("list[Connection]", list(self.server_state.connections))

    async def _stop_now(self) -> None:
        await self._hurry.wait()
        await self._drain(0.0, HURRY_S)
