"""The load generators' HTTP client."""

import asyncio

import pytest

from segue.bench.harness.wire import Streamed, Wire, collect, run


@pytest.mark.parametrize("cut", range(1, 6))
def test_the_end_of_a_stream_may_come_in_two_pieces(cut: int) -> None:
    sent = b"3\r\na\n\n\r\n0\r\n\r\n"

    async def pieces() -> list[bytes]:
        reader = asyncio.StreamReader()
        reader.feed_data(b"HTTP/1.1 200 OK\r\n\r\n")
        events = Wire(reader, Ignored()).events(b"")  # type: ignore[arg-type]
        found = []
        for piece in (sent[:-cut], sent[-cut:]):
            reader.feed_data(piece)
            found.append((await anext(events))[1])
        assert [more async for more in events] == []
        return found

    assert run(pieces()) == [sent[:-cut], sent[-cut:]]


class Ignored:
    """A writer whose reader does not care."""

    def write(self, data: bytes) -> None: ...


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
