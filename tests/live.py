"""A whole server in this process: real socket, real supervisor, real worker process, any loader."""

import asyncio
import threading
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import httpx2

from segue.dialects import DIALECTS
from segue.dialects.base import Dialect
from segue.engine.fleet import Fleet, Member
from segue.engine.seam import Engine, Loader
from segue.engine.supervisor import Supervisor
from segue.server.app import create_app
from segue.server.listen import Server, address, bind, run
from segue.server.policy import Policy
from segue.types import Stats

T = TypeVar("T")


class Live:
    def __init__(
        self,
        loader: Loader,
        *,
        step_timeout_s: float = 30.0,
        write_timeout_s: float = 30.0,
        drain_s: float = 0.0,
        dialects: Sequence[Dialect] = DIALECTS,
        **policy: Any,
    ) -> None:
        self._loader = loader
        self._step_timeout_s = step_timeout_s
        fleet = self.fleet = Fleet([Member("fake", (), self._start)])
        self._listener = bind("127.0.0.1", 0)
        self.host, self.port = self._listener.getsockname()[:2]
        self.url = address(self._listener)
        app = create_app(fleet, dialects, policy=Policy(**policy))
        self._server = Server(
            app, on_stop=fleet.close, drain_s=drain_s, write_timeout_s=write_timeout_s
        )
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=run, args=(self._main(),))
        self._thread.start()
        self._is_up.wait(30)
        self.client = httpx2.Client(base_url=self.url, timeout=30)

    async def _start(self) -> Engine:
        self.supervisor = Supervisor(self._loader, 64, self._step_timeout_s)
        await self.supervisor.start()
        return self.supervisor

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self.fleet.open("fake")
        finally:
            self._is_up.set()
        await self._server.serve([self._listener])

    def ask(self, question: Awaitable[T]) -> T:
        """The result of something that must run in the server's loop."""

        async def asked() -> T:
            return await question

        return asyncio.run_coroutine_threadsafe(asked(), self._loop).result(30)

    def stats(self) -> Stats:
        return self.ask(self.supervisor.stats())

    def complete(self, **body: Any) -> httpx2.Response:
        return self.client.post("/v1/completions", json={"prompt": "ab", "seed": 1, **body})

    def stop(self) -> None:
        self.client.close()
        self._server.should_exit = True
        self._thread.join(30)

    def __enter__(self) -> "Live":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
