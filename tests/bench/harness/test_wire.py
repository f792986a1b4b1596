"""The load generators' HTTP client."""

import asyncio

from segue.bench.harness.wire import Streamed, collect, run


def test_a_stream_is_collected_whole_with_the_times_of_its_first_and_last_event() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readexactly(5)
        for piece in (b"HTTP/1.1 200 OK\r\n\r\n", b"data: " + asked, b"data: [DONE]"):
            writer.write(piece)
            await writer.drain()
        writer.close()

    async def ask() -> Streamed:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            host, port = server.sockets[0].getsockname()
            return await collect(host, port, b"hello")

    streamed = run(ask())
    assert streamed.data == b"HTTP/1.1 200 OK\r\n\r\ndata: hellodata: [DONE]"
    assert 0 < streamed.first_s <= streamed.last_s
