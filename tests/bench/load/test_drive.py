import asyncio
import time

from segue.bench.load.drive import Outcome, Target, ask
from segue.bench.load.requests import REQUEST_FORMATS

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
EVENTS = b'data: {"choices": [{"text": "a"}]}\n\ndata: [DONE]\n\n'


def test_a_comment_is_no_first_token() -> None:
    said_at = 0.0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal said_at
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b": keep-alive\n\n")
        await writer.drain()
        for _ in range(20):  # the client reads it in this very loop
            await asyncio.sleep(0)
        said_at = time.perf_counter()
        writer.write(EVENTS)
        writer.close()

    async def asked() -> Outcome:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            target = Target(f"http://127.0.0.1:{port}", REQUEST_FORMATS["openai"])
            return await ask(target, {"prompt": "x"})

    outcome = asyncio.run(asked())
    assert not outcome.problem
    assert outcome.sent_at + outcome.first_s >= said_at
