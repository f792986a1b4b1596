"""Sends load and measures it: closed loop (clients that wait for their answer) or open loop (requests per second)."""

import asyncio
import itertools
import json
import random
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from segue import unix_socket
from segue.bench.load.requests import Body, RequestFormat, objects

PATIENCE_S = 600.0
FIRST_MODEL = "default"  # as Segue calls its first


@dataclass(frozen=True)
class Target:
    url: str
    format: RequestFormat
    key: str = ""
    model: str = FIRST_MODEL


@dataclass(frozen=True)
class Outcome:
    """One request. Times are seconds from its sending; `problem` says what it came to, "" if all went well."""

    sent_at: float
    first_s: float
    total_s: float
    num_tokens: int
    problem: str

    @property
    def gap_s(self) -> float:
        """Mean seconds between two tokens."""
        return (self.total_s - self.first_s) / max(1, self.num_tokens - 1)


async def ask(target: Target, body: Body) -> Outcome:
    """Send one request. Never raises for errors of the server."""
    begun = time.perf_counter()
    try:
        first, content = await _exchange(target, "POST", target.format.path, json.dumps(body))
        parts = objects(content)
        problem = next((f"answers {part['error']}" for part in parts if part.get("error")), "")
        tokens = 0 if problem else target.format.count(parts)
        return Outcome(begun, first - begun, time.perf_counter() - begun, tokens, problem[:300])
    except (OSError, EOFError, ValueError) as error:
        return Outcome(begun, 0.0, time.perf_counter() - begun, 0, _problem(error))


async def listed_model(target: Target) -> str:
    """The first model that the server lists, by the path that all of them have; without a list, Segue's word for it."""
    try:
        _, content = await _exchange(target, "GET", "/v1/models")
        return str(json.loads(content)["data"][0]["id"])
    except (OSError, EOFError, ValueError, LookupError, TypeError):
        return FIRST_MODEL  # what is wrong is told when the server is asked for text


def _problem(error: Exception) -> str:
    said = str(error) or type(error).__name__
    is_answer = isinstance(error, ValueError)
    return (f"answers {said}" if is_answer else f"does not answer: {said}")[:300]


async def _exchange(
    target: Target, method: str, path: str, content: str = ""
) -> tuple[float, bytes]:
    """Time to first token, and the whole answer. Raises ValueError if it is a refusal."""
    async with asyncio.timeout(PATIENCE_S):
        first, head, answer = await _sent(target, method, path, content.encode())
    if b"transfer-encoding: chunked" in head.lower():
        answer = _dechunked(answer)
    status = int(head.split(b" ", 2)[1])
    if status != 200:
        raise ValueError(f"{status}: {_words(answer)}")
    return first, answer


async def _sent(
    target: Target, method: str, path: str, content: bytes
) -> tuple[float, bytes, bytes]:
    """Time to first token, head and body of the answer, as they came."""
    socket = unix_socket.path_of(target.url) if target.url.startswith(unix_socket.SCHEME) else None
    parts = urlsplit(target.url if socket is None else "http://localhost")
    key = f"authorization: Bearer {target.key}\r\n" if target.key else ""
    line = f"{method} {parts.path.rstrip('/')}{path} HTTP/1.1\r\nhost: {parts.netloc}\r\n{key}"
    kind = f"content-type: application/json\r\ncontent-length: {len(content)}\r\n"
    if socket is None:
        is_tls = parts.scheme == "https"
        port = parts.port or (443 if is_tls else 80)
        context = ssl.create_default_context() if is_tls else None
        reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context)
    else:
        reader, writer = await asyncio.open_unix_connection(socket)
    try:
        writer.write(f"{line}{kind}connection: close\r\n\r\n".encode() + content)
        head = await reader.readuntil(b"\r\n\r\n")
        first, pieces = 0.0, []
        while piece := await reader.read(1 << 16):
            if b"{" in piece:  # comments that keep a connection alive are no tokens
                first = first or time.perf_counter()
            pieces.append(piece)
    finally:
        writer.close()
    return first, head, b"".join(pieces)


def _words(content: bytes) -> str:
    """What a refusal says, in the shape of any of the systems."""
    try:
        said = json.loads(content)
        for name in ("error", "message", "detail"):
            said = said.get(name, said) if isinstance(said, dict) else said
        return said if isinstance(said, str) else json.dumps(said)
    except ValueError:
        return content.decode(errors="replace").strip()


def _dechunked(content: bytes) -> bytes:
    parts, at = [], 0
    while (end := content.find(b"\r\n", at)) >= 0:
        size = int(content[at:end].split(b";")[0] or b"0", 16)
        if not size:
            break
        parts.append(content[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
    return b"".join(parts)


async def closed_loop(
    target: Target, body: Callable[[int], Body], clients: int, requests: int
) -> list[Outcome]:
    """So many clients at once, until so many requests were answered."""
    numbers = iter(range(requests))
    outcomes: list[Outcome] = []

    async def client() -> None:
        for number in numbers:
            outcomes.append(await ask(target, body(number)))

    await asyncio.gather(*(client() for _ in range(clients)))
    return outcomes


async def open_loop(
    target: Target, body: Callable[[int], Body], rate: float, seconds: float
) -> list[Outcome]:
    """So many requests per second, at random moments, whether or not the earlier ones were answered."""
    moments, clock, started = random.Random(0), 0.0, time.perf_counter()
    asked: list[asyncio.Task[Outcome]] = []
    for number in itertools.count():
        clock += moments.expovariate(rate)
        if clock > seconds:
            break
        await asyncio.sleep(max(0.0, started + clock - time.perf_counter()))
        asked.append(asyncio.create_task(ask(target, body(number))))
    return list(await asyncio.gather(*asked))
