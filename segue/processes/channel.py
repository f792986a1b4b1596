"""Calls in both directions over one socket. Those of one side are begun in the order they were made."""

import asyncio
import itertools
import logging
import socket
from collections.abc import Awaitable, Callable

from segue.engine.process.messages import framed, read
from segue.engine.seam import error_of, failed_of
from segue.errors import EngineFault, SegueError, Unavailable
from segue.processes.messages import Answer, Call, Message, Returned, encode, frames
from segue.types import Failed

log = logging.getLogger("segue.processes")


class Channel:
    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: Callable[[Message], Awaitable[Answer]],
    ) -> None:
        """`answer` is called with what the other side asks; a SegueError it raises is raised there."""
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._is_open = True
        self._calls: dict[int, asyncio.Future[Answer]] = {}
        self._numbers = itertools.count()
        self._answering: set[asyncio.Task[None]] = set()

    @classmethod
    async def over(
        cls, sock: socket.socket, answer: Callable[[Message], Awaitable[Answer]]
    ) -> "Channel":
        return cls(*await asyncio.open_connection(sock=sock), answer)

    async def serve(self) -> None:
        """Answer calls until the other side is gone; calls that wait for it then fail."""
        try:
            while (frame := await read(self._reader, frames)) is not None:
                self._take(frame)
        finally:
            self._is_open = False
            self._writer.close()
            for future in self._calls.values():
                if not future.done():
                    future.set_exception(Unavailable("the server is shutting down"))
            for task in self._answering:
                task.cancel()

    async def call(self, message: Message) -> Answer:
        """The other side's answer. Raises what it raised, or Unavailable if it is gone."""
        if not self._is_open:
            raise Unavailable("the server is shutting down")
        number = next(self._numbers)
        future: asyncio.Future[Answer]
        future = self._calls[number] = asyncio.get_running_loop().create_future()
        self._write(Call(number, message))
        try:
            return await future
        finally:
            del self._calls[number]

    def _take(self, frame: Call | Returned) -> None:
        if isinstance(frame, Call):
            task = asyncio.create_task(self._reply(frame))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
            return
        future = self._calls.get(frame.number)
        if future is None or future.done():
            return
        if frame.error is None:
            future.set_result(frame.answer)
        else:
            future.set_exception(error_of(frame.error))

    async def _reply(self, call: Call) -> None:
        try:
            returned = Returned(call.number, await self._answer(call.message))
        except SegueError as error:
            returned = Returned(call.number, error=failed_of(error))
        except Exception:
            log.exception("a message between server processes could not be handled")
            returned = Returned(call.number, error=Failed(EngineFault.code, "the call failed"))
        self._write(returned)

    def _write(self, frame: Call | Returned) -> None:
        body = framed(encode(frame))
        if self._is_open and not self._writer.is_closing():
            self._writer.write(body)
