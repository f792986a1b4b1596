"""One completion, from an engine in this process or from a server: both give chunks of the root dialect."""

import asyncio
import json
import os
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, suppress
from http.client import HTTPException
from threading import Event, Thread
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import msgspec
from rich.console import Console

from segue import __version__
from segue.commands.folding import Chunk
from segue.commands.running.engine import running
from segue.config import Settings
from segue.dialects.base import Call, Stamp
from segue.dialects.openai import OPENAI
from segue.dialects.rendering.text_completion import TextCompletion
from segue.engine.process.new_worker import NewWorker
from segue.engine.seam import Engine, error_of
from segue.errors import RequestError, SetupError, Unavailable
from segue.types import Failed

OPERATION = OPENAI.operations[0]
TIMEOUT_S = 600.0
_NAMED_KEY = "(SEGUE_API_KEY has a colon: where it is NAME:KEY, as a server takes it, a client sends KEY alone.)"


def parsed(body: Chunk, fingerprint: str = f"segue-{__version__}") -> Call:
    """The request, with a random seed if it has none. Raises InvalidField."""
    stamp = Stamp(
        request_id="command",
        public_id="command",
        created=int(time.time()),
        seed=secrets.randbits(53),
        fingerprint=fingerprint,
    )
    return OPERATION.parse(body, stamp)


async def ask_engine(engine: Engine, body: Chunk) -> AsyncIterator[Chunk]:
    """The chunks that a server would send, after one that holds the seed and begins the computation."""
    call = parsed({"model": engine.info.name, **body}, engine.info.fingerprint)
    renderer = TextCompletion(call)
    yield {"seed": call.request.sampling.seed, "begins": True}
    request = msgspec.structs.replace(call.request, model="")
    async with aclosing(engine.submit(request)) as events:
        async for event in events:
            if isinstance(event, Failed):
                raise error_of(event)
            for chunk in renderer.push(event):
                yield msgspec.json.decode(msgspec.json.encode(chunk))


def chunks(
    body: Chunk, url: str | None, settings: Settings | None, ahead: NewWorker | None
) -> AsyncGenerator[Chunk, None]:
    """Of the model of these settings; without any, of the server at this address."""
    if settings is None:
        return from_server(body, url or "")
    return from_model(body, settings, ahead)


async def from_model(
    body: Chunk, settings: Settings, ahead: NewWorker | None
) -> AsyncGenerator[Chunk, None]:
    """The chunks of the model of these settings, which runs for as long as they come."""
    async with running(settings, Console(stderr=True), ahead) as engine:
        async for chunk in ask_engine(engine, body):
            yield chunk


async def from_server(body: Chunk, url: str) -> AsyncGenerator[Chunk, None]:
    """The chunks of a server, whose key is in the environment. A thread waits for them: Ctrl-C ends a task of the event
    loop, which must be there to end it."""
    loop, arrived = asyncio.get_running_loop(), asyncio.Queue[Chunk | Exception | None]()
    is_left = Event()

    def put(what: Chunk | Exception | None) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(arrived.put_nowait, what)

    def read() -> None:
        try:
            for chunk in ask_server(url, body, os.environ.get("SEGUE_API_KEY", "")):
                put(chunk)
                if is_left.is_set():
                    return
            put(None)
        except Exception as error:
            put(error)

    Thread(target=read, name="segue-answer", daemon=True).start()
    try:
        while (found := await arrived.get()) is not None:
            if isinstance(found, Exception):
                raise found
            yield found
    finally:
        is_left.set()


def ask_server(url: str, body: Chunk, key: str = "") -> Iterator[Chunk]:
    """The chunks of a server. `url`: its address, with or without /v1. Raises SegueError."""
    headers = {"content-type": "application/json", "user-agent": f"segue/{__version__}"}
    if key:
        if not (key.isascii() and key.isprintable()):
            raise SetupError("SEGUE_API_KEY has a character that no header carries")
        headers["authorization"] = f"Bearer {key}"
    request = Request(_checked_url(url), json.dumps(body).encode(), headers)
    has_ended = False
    try:
        with urlopen(request, timeout=TIMEOUT_S) as answer:
            yield {"seed": _whole(answer.headers.get("x-segue-seed")) or body.get("seed")}
            for line in answer:
                data = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
                has_ended |= data == b"[DONE]"
                if data.startswith(b"{"):
                    chunk = _read_chunk(data, url)
                    has_ended |= any(each.get("finish_reason") for each in chunk["choices"])
                    yield chunk
        if not has_ended:
            raise Unavailable(f"{url} sent no answer, or not all of it")
    except HTTPError as error:
        hint = f" {_NAMED_KEY}" if error.code == 401 and ":" in key else ""
        message, param = _complaint(error.read())
        raise RequestError(f"{error.code} of {url}: {message}{hint}", param) from None
    except (URLError, HTTPException, OSError) as error:
        reason = getattr(error, "reason", error)
        raise Unavailable(f"{url} cannot be reached: {reason}") from None


def _checked_url(url: str) -> str:
    with suppress(ValueError):  # of an address of IPv6 that has no end
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.netloc and parts.path.isascii():
            return completions_url(url)
    raise SetupError(f"--url must be an address such as http://127.0.0.1:8080, not {url!a}")


def completions_url(url: str) -> str:
    base = url.rstrip("/")
    if urlsplit(base).path.endswith("/completions"):
        return base
    return f"{base}/completions" if base.endswith("/v1") else f"{base}/v1/completions"


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _read_chunk(data: bytes, url: str) -> Chunk:
    """A chunk with its choices. Raises Unavailable for an error, and for what is no chunk."""
    try:
        chunk: Chunk = json.loads(data)
    except ValueError:
        chunk = {"choices": None}
    if error := chunk.get("error"):
        raise Unavailable(str(error.get("message", error) if isinstance(error, dict) else error))
    match chunk.setdefault("choices", []):
        case [*choices] if all(_is_choice(each) for each in choices):
            return chunk
    raise Unavailable(f"{url} sent what is no completion: {data[:200].decode(errors='replace')!a}")


def _is_choice(each: object) -> bool:
    match each:
        case {"index": int(), "text": str()}:
            return True
    return False


def _complaint(content: bytes) -> tuple[str, str | None]:
    """What a server says, and the field that it is about, if it names one."""
    try:
        error = json.loads(content)["error"]
        if not isinstance(error, dict):
            return str(error), None
        param = error.get("param")
        return str(error["message"]), param if isinstance(param, str) else None
    except (ValueError, KeyError, TypeError):
        return content[:300].decode(errors="replace"), None
