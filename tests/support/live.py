"""A server on a real socket, for tests. Here with the real engine; tests/server has scripted ones."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Sequence
from typing import Any, Self, TypeVar

import httpx2

from segue.dialects import DIALECTS
from segue.dialects.base import Dialect
from segue.engine.process.fleet import Fleet, Member
from segue.engine.process.supervisor import Supervisor
from segue.engine.seam import Engine, Loader, Models
from segue.server.admission.admission import Admission, Trace
from segue.server.admission.policy import Policy
from segue.server.app import create_app
from segue.server.transport.listen import Server, address, bind, run
from segue.types import Stats
from tests.support.waiting import PATIENCE_S, wait_until

T = TypeVar("T")

CHUNK_ROWS = 256


class Served:
    """Runs from construction until `stop`, on a thread of its own."""

    def __init__(
        self,
        models: Models,
        dialects: Sequence[Dialect] = DIALECTS,
        *,
        drain_s: float = 0.0,
        write_timeout_s: float = 30.0,
        trace: Trace | None = None,
        **policy: Any,
    ):
        self._listener = bind("127.0.0.1", 0)
        self.host, self.port = self._listener.getsockname()[:2]
        self.url = address(self._listener)
        self.on_stop = models.close
        app = create_app(models, dialects, policy=Policy(**policy), trace=trace)
        self.admission: Admission = app.state.admission
        self._server = Server(
            app,
            on_stop=lambda drain_s: self.on_stop(drain_s),
            drain_s=drain_s,
            write_timeout_s=write_timeout_s,
            takes_signals=True,
        )
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=run, args=(self._main(),))
        self._thread.start()
        self._is_up.wait(PATIENCE_S)
        self.client = httpx2.Client(base_url=self.url, timeout=PATIENCE_S)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_up.set()
        await self._server.serve([self._listener])

    @property
    def loop_thread(self) -> str:
        return self._thread.name

    def connect(self, num_unread: int | None = None) -> socket.socket:
        """A connection for bytes that no client would send. `num_unread`: what the client's system takes for it before
        it reads; else that is the system's affair, and may be megabytes."""
        client = socket.socket()
        if num_unread is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, num_unread)
        client.settimeout(PATIENCE_S)
        client.connect((self.host, self.port))
        return client

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def num_running(self) -> int:
        """Requests whose head has been read, and that have not ended."""
        return len(self._server.server_state.tasks)

    @property
    def connections(self) -> set[Any]:
        return self._server.server_state.connections

    def shrink_send_buffers(self) -> None:
        """Of connections that are accepted from now on: what a client does not read waits in the server."""
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

    def ask(self, question: Awaitable[T], patience_s: float | None = PATIENCE_S) -> T:
        """The result of something that must run in the server's loop."""

        async def asked() -> T:
            return await question

        return asyncio.run_coroutine_threadsafe(asked(), self._loop).result(patience_s)

    def load(self, fleet: Fleet) -> None:
        """Start the first model, so that no test waits for it by chance; or stop."""
        try:
            self.ask(fleet.open(fleet.names[0]), None)  # it may wait for the compiler
        except BaseException:
            self.stop()
            raise

    def ask_to_stop(self) -> None:
        self._server.should_exit = True

    def stop(self) -> None:
        self.client.close()
        self.ask_to_stop()
        self._thread.join(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Live(Served):
    """One worker over this loader, up when this returns; what the engine knows of it can be asked."""

    def __init__(
        self,
        loader: Loader,
        *,
        step_timeout_s: float = 30.0,
        has_priorities: bool = False,
        **settings: Any,
    ) -> None:
        self._loader = loader
        self._has_priorities = has_priorities
        self._step_timeout_s = step_timeout_s
        self.fleet = Fleet([Member("fake", (), self._start)])
        super().__init__(self.fleet, **settings)
        self.load(self.fleet)

    async def _start(self) -> Engine:
        self.supervisor = Supervisor(
            self._loader, 64, self._step_timeout_s, has_priorities=self._has_priorities
        )
        await self.supervisor.start()
        return self.supervisor

    def stats(self) -> Stats:
        return self.ask(self.supervisor.stats())

    def wait_until_idle(self) -> None:
        """The worker hears after its current step that a client has left."""

        def is_idle() -> bool:
            stats = self.stats()
            return not (stats.running or stats.waiting)

        wait_until(is_idle)

    def complete(self, **body: Any) -> httpx2.Response:
        return self.client.post("/v1/completions", json={"prompt": "ab", "seed": 1, **body})


def serve(loader: Loader, name: str, *, strict: bool = False, **settings: Any) -> Served:
    """Every dialect over our own engine, in a process of its own; its model is up when this returns."""

    async def start() -> Engine:
        supervisor = Supervisor(loader, CHUNK_ROWS)
        await supervisor.start()
        return supervisor

    fleet = Fleet([Member(name, (), start)], strict=strict)
    served = Served(fleet, DIALECTS, **settings)
    served.load(fleet)
    return served
