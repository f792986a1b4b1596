"""Messages between server processes and a worker: msgpack, each preceded by its length in four bytes."""

import asyncio
import logging
import socket
from typing import TypeVar

import msgspec
from msgspec import Struct

from segue.errors import EngineFault, SegueError
from segue.types import CompletionRequest, Event, ModelInfo, SlotAction, SlotResult, Stats

log = logging.getLogger("segue.worker")

# --- server process → worker ----------------------------------------------------------------------


class Submit(Struct, frozen=True, tag=True, array_like=True):
    request: CompletionRequest


class Cancel(Struct, frozen=True, tag=True, array_like=True):
    request_id: str


class Tokenize(Struct, frozen=True, tag=True, array_like=True):
    call: int
    text: str
    add_special: bool
    parse_special: bool


class GetPieces(Struct, frozen=True, tag=True, array_like=True):
    call: int
    tokens: list[int]


class GetLists(Struct, frozen=True, tag=True, array_like=True):
    call: int


class ActOnSlot(Struct, frozen=True, tag=True, array_like=True):
    call: int
    action: SlotAction


class Ping(Struct, frozen=True, tag=True, array_like=True):
    """Answered with a Pong at once, even while a step runs."""


Call = Tokenize | GetPieces | GetLists | ActOnSlot
WorkerMessage = Submit | Cancel | Call | Ping

# --- worker → server process ----------------------------------------------------------------------


class Ready(Struct, frozen=True, tag=True, array_like=True):
    info: ModelInfo
    restarts: int = 0  # how many workers there were before this one


class LoadFailed(Struct, frozen=True, tag=True, array_like=True):
    code: str
    message: str


class StepEvents(Struct, frozen=True, tag=True, array_like=True):
    """All events of one step, by the ids of their requests, and the statistics where they are due."""

    events: dict[str, list[Event]]
    stats: Stats | None = None


class Answer(Struct, frozen=True, tag=True, array_like=True):
    """The answer to a call. Exactly one of the values is set."""

    call: int
    tokens: list[int] | None = None
    pieces: list[bytes] | None = None
    lists: dict[str, bytes] | None = None
    slot: SlotResult | None = None
    error: tuple[str, str, str | None] | None = None  # code, message, param


class Pong(Struct, frozen=True, tag=True, array_like=True):
    """Seconds since each thread began its current piece of work; 0 while it waits for work."""

    step_s: float
    inbox_s: float


Report = Ready | LoadFailed | StepEvents | Answer | Pong

HEADER_BYTES = 4
_encoder = msgspec.msgpack.Encoder()
worker_messages = msgspec.msgpack.Decoder(WorkerMessage)
reports = msgspec.msgpack.Decoder(Report)

M = TypeVar("M")


def failed_call(call: int, error: Exception) -> Answer:
    """The answer to a call that raised. What was not foreseen goes to the log, and not to the client."""
    if isinstance(error, SegueError):
        return Answer(call, error=(error.code, error.message, error.param))
    log.error("a call could not be answered", exc_info=error)
    return Answer(call, error=(EngineFault.code, "the call failed", None))


def slot_answer(call: int, told: SlotResult | Exception) -> Answer:
    return failed_call(call, told) if isinstance(told, Exception) else Answer(call, slot=told)


def frame(message: WorkerMessage | Report) -> bytes:
    return framed(_encoder.encode(message))


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(HEADER_BYTES, "little") + body


async def read(reader: asyncio.StreamReader, decoder: msgspec.msgpack.Decoder[M]) -> M | None:
    """The next message, or None after the other side is gone."""
    try:
        header = await reader.readexactly(HEADER_BYTES)
        body = await reader.readexactly(int.from_bytes(header, "little"))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return decoder.decode(body)


def receive(sock: socket.socket, decoder: msgspec.msgpack.Decoder[M]) -> M | None:
    """The same, on a thread."""
    header = _receive(sock, HEADER_BYTES)
    body = None if header is None else _receive(sock, int.from_bytes(header, "little"))
    return None if body is None else decoder.decode(body)


def _receive(sock: socket.socket, size: int) -> bytearray | None:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        try:
            count = sock.recv_into(view[got:])
        except OSError:
            return None
        if not count:
            return None
        got += count
    return data
