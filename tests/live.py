"""A server on a real socket, for tests. Here with the real engine; tests/server has scripted ones."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import httpx2

from segue.dialects import DIALECTS
from segue.dialects.base import Dialect
from segue.engine.fleet import Fleet, Member
from segue.engine.seam import Engine, Loader, Models
from segue.engine.supervisor import Supervisor
from segue.server.app import create_app
from segue.server.listen import Server, address, bind, run

CHUNK_ROWS = 256


class Served:
    """Runs from construction until `stop`, on a thread of its own."""

    def __init__(self, models: Models, dialects: Sequence[Dialect], **settings: Any):
        self._listener = bind("127.0.0.1", 0)
        self.host, self.port = self._listener.getsockname()[:2]
        self.url = address(self._listener)
        self.on_stop = models.close
        app = create_app(models, dialects, **settings)
        self._server = Server(app, on_stop=lambda: self.on_stop())
        self._thread = threading.Thread(target=run, args=(self._main(),))
        self._thread.start()
        self.client = httpx2.Client(base_url=self.url, timeout=20)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve([self._listener])

    def ask_to_stop(self) -> None:
        self._server.should_exit = True

    def stop(self) -> None:
        self.client.close()
        self.ask_to_stop()
        self._thread.join(10)


def serve(loader: Loader, name: str, *, strict: bool = False, **settings: Any) -> Served:
    """Every dialect over our own engine, in a process of its own."""

    async def start() -> Engine:
        supervisor = Supervisor(loader, CHUNK_ROWS)
        await supervisor.start()
        return supervisor

    return Served(Fleet([Member(name, (), start)], strict=strict), DIALECTS, **settings)
