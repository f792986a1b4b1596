"""A server on a real socket, for tests. Here with the real engine; tests/server has scripted ones."""

import asyncio
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
from segue.server.listen import Server, address, bind, run
from segue.types import Stats

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
        )
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=run, args=(self._main(),))
        self._thread.start()
        self._is_up.wait(30)
        self.client = httpx2.Client(base_url=self.url, timeout=20)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_up.set()
        await self._server.serve([self._listener])

    @property
    def loop_thread(self) -> str:
        return self._thread.name

    def ask_to_stop(self) -> None:
        self._server.should_exit = True

    def stop(self) -> None:
        self.client.close()
        self.ask_to_stop()
        self._thread.join(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Live(Served):
    """One worker over this loader, up when this returns; what the engine knows of it can be asked."""

    def __init__(self, loader: Loader, *, step_timeout_s: float = 30.0, **settings: Any) -> None:
        self._loader = loader
        self._step_timeout_s = step_timeout_s
        self.fleet = Fleet([Member("fake", (), self._start)])
        super().__init__(self.fleet, **settings)
        self.ask(self.fleet.open("fake"))

    async def _start(self) -> Engine:
        self.supervisor = Supervisor(self._loader, 64, self._step_timeout_s)
        await self.supervisor.start()
        return self.supervisor

    def ask(self, question: Awaitable[T]) -> T:
        """The result of something that must run in the server's loop."""

        async def asked() -> T:
            return await question

        return asyncio.run_coroutine_threadsafe(asked(), self._loop).result(30)

    def stats(self) -> Stats:
        return self.ask(self.supervisor.stats())

    def complete(self, **body: Any) -> httpx2.Response:
        return self.client.post("/v1/completions", json={"prompt": "ab", "seed": 1, **body})


def serve(loader: Loader, name: str, *, strict: bool = False, **settings: Any) -> Served:
    """Every dialect over our own engine, in a process of its own."""

    async def start() -> Engine:
        supervisor = Supervisor(loader, CHUNK_ROWS)
        await supervisor.start()
        return supervisor

    return Served(Fleet([Member(name, (), start)], strict=strict), DIALECTS, **settings)
