"""An Engine over a worker that another process supervises: for server processes beside that one.

The worker's socket (of the Unix domain) outlives the worker. So a connection made while no worker runs is taken by
the next one, and Ready says when.
"""

import asyncio
import contextlib
import logging

from segue.engine.process import messages
from segue.engine.process.client import READ_LIMIT, Client, OnCrash

log = logging.getLogger("segue.supervisor")

_PING_S = 1.0
_PAUSE_S = 0.25  # before a socket is tried again that could not be reached


class AttachedEngine(Client):
    def __init__(self, address: str, on_crash: OnCrash | None = None) -> None:
        """`address`: the path of the worker's socket."""
        super().__init__(on_crash)
        self._address = address
        self._connecting: asyncio.Task[None] | None = None
        self._was_ready = asyncio.Event()

    async def start(self) -> None:
        """Connect, and wait until the worker is ready."""
        self._connecting = asyncio.create_task(self._stay_connected())
        try:
            await self._was_ready.wait()
        except BaseException:
            await self.close()
            raise

    async def close(self, drain_s: float = 0.0) -> None:
        """End the connection, after at most `drain_s` for open requests; the worker goes on."""
        await self._drain(drain_s)
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])

    async def _stay_connected(self) -> None:
        while True:
            try:
                reader, self._writer = await asyncio.open_unix_connection(
                    self._address, limit=READ_LIMIT
                )
            except OSError as error:
                log.error("the model's process cannot be reached: %s", error)
                await asyncio.sleep(_PAUSE_S)
                continue
            await self._one_connection(reader, self._writer)

    async def _one_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        pinging = asyncio.create_task(self._ping())
        try:
            while (report := await messages.read(reader, messages.reports)) is not None:
                self._take(report)
                if isinstance(report, messages.Ready):
                    self._was_ready.set()
        finally:
            pinging.cancel()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self._lost()

    async def _ping(self) -> None:
        """So that statistics are known to hold while the worker is idle."""
        while True:
            await asyncio.sleep(_PING_S)
            self._send(messages.Ping())
