import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest
from starlette.types import Message

from segue.server.feed import FAULT, Disconnected, Feed
from segue.types import Delta, Done, Event, Usage

DELTAS = [Delta(0, word, (1,)) for word in ("a", "b", "c")]


async def silence() -> Message:
    """A client that stays and says nothing more."""
    await asyncio.Event().wait()
    raise AssertionError


async def goodbye() -> Message:
    return {"type": "http.disconnect"}


def source_of(events: Sequence[Event], is_closed: asyncio.Event) -> AsyncGenerator[Event, None]:
    async def generate() -> AsyncGenerator[Event, None]:
        try:
            for event in events:
                yield event
            await asyncio.Event().wait()
        finally:
            is_closed.set()

    return generate()


async def take_all(events: Sequence[Event]) -> list[list[Event]]:
    is_closed = asyncio.Event()

    async def source() -> AsyncGenerator[Event, None]:
        return source_of(events, is_closed)

    async with Feed(source, silence) as feed:
        taken = [await feed.take(), await feed.take(0.001)]
    assert is_closed.is_set()
    return taken


def test_what_has_arrived_is_taken_in_one_piece() -> None:
    """A stream that fell behind catches up in one write."""
    assert asyncio.run(take_all(DELTAS)) == [DELTAS, []]
    done = Done(Usage(1, 3, 0), 5)
    assert asyncio.run(take_all([*DELTAS, done])) == [[*DELTAS, done], []]


def test_events_that_just_end_are_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> list[Event]:
        async def nothing() -> AsyncGenerator[Event, None]:
            async def generate() -> AsyncGenerator[Event, None]:
                for event in DELTAS:
                    yield event

            return generate()

        async with Feed(nothing, silence) as feed:
            return await feed.take()

    assert asyncio.run(main()) == [*DELTAS, FAULT]
    assert "without Done or Failed" in caplog.text


def test_disconnect_closes_the_source_and_ends_taking() -> None:
    async def main() -> None:
        is_closed = asyncio.Event()

        async def source() -> AsyncGenerator[Event, None]:
            return source_of(DELTAS, is_closed)

        async with Feed(source, goodbye) as feed:
            await is_closed.wait()
            with pytest.raises(Disconnected):
                await feed.take()

    asyncio.run(main())
