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

from segue.bench.load.requests import Body, RequestFormat, objects

PATIENCE_S = 600.0


@dataclass(frozen=True)
class Target:
    url: str
    format: RequestFormat
    key: str = ""


@dataclass(frozen=True)
class Outcome:
    """One request. Times are seconds from its sending; `problem` is empty if all went well."""

    sent_at: float
    first_s: float
    total_s: float
    num_tokens: int
    problem: str = ""

    @property
    def gap_s(self) -> float:
        """Mean seconds between two tokens."""
        return (self.total_s - self.first_s) / max(1, self.num_tokens - 1)


async def ask(target: Target, body: Body) -> Outcome:
    """Send one request. Never raises for errors of the server."""
    begun = time.perf_counter()
    try:
        async with asyncio.timeout(PATIENCE_S):
            first, content = await _exchange(target, body)
        parts = objects(content)
        problem = next((str(part["error"])[:200] for part in parts if part.get("error")), "")
        tokens = 0 if problem else target.format.count(parts)
        return Outcome(begun, first - begun, time.perf_counter() - begun, tokens, problem)
    except (OSError, EOFError, ValueError, TimeoutError) as error:
        words = str(error)[:200] or type(error).__name__
        return Outcome(begun, 0.0, time.perf_counter() - begun, 0, words)


async def _exchange(target: Target, body: Body) -> tuple[float, bytes]:
    """Time to first token, and the whole answer."""
    parts = urlsplit(target.url)
    is_tls = parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    context = ssl.create_default_context() if is_tls else None
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context)
    try:
        writer.write(_request(target, body, parts.netloc, parts.path.rstrip("/")))
        head = await reader.readuntil(b"\r\n\r\n")
        first, pieces = 0.0, []
        while piece := await reader.read(1 << 16):
            if b"{" in piece:  # comments that keep a connection alive are no tokens
                first = first or time.perf_counter()
            pieces.append(piece)
    finally:
        writer.close()
    content = b"".join(pieces)
    if b"transfer-encoding: chunked" in head.lower():
        content = _dechunked(content)
    status = int(head.split(b" ", 2)[1])
    if status != 200:
        raise ValueError(f"{status}: {content[:150].decode(errors='replace')}")
    return first, content


def _request(target: Target, body: Body, host: str, prefix: str) -> bytes:
    content = json.dumps(body).encode()
    key = f"authorization: Bearer {target.key}\r\n" if target.key else ""
    head = (
        f"POST {prefix}{target.format.path} HTTP/1.1\r\nhost: {host}\r\n{key}"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + content


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
    target: Target, body: Callable[[int], Body], rate: float, seconds: float, seed: int = 0
) -> list[Outcome]:
    """So many requests per second, at random moments, whether or not the earlier ones were answered."""
    moments, clock, started = random.Random(seed), 0.0, time.perf_counter()
    asked: list[asyncio.Task[Outcome]] = []
    for number in itertools.count():
        clock += moments.expovariate(rate)
        if clock > seconds:
            break
        await asyncio.sleep(max(0.0, started + clock - time.perf_counter()))
        asked.append(asyncio.create_task(ask(target, body(number))))
    return list(await asyncio.gather(*asked))
