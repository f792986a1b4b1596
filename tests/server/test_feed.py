import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator, Sequence

import pytest
from starlette.types import Message

from segue.engine.seam import Sink
from segue.server import feed
from segue.server.coalescing import Coalescer
from segue.server.feed import FAULT, Disconnected, Feed
from segue.types import Alternative, Delta, Done, Event, Failed, Prompted, TokenScore, Usage
from tests.support.prompt_scores import columns

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

    async def source(sink: Sink) -> AsyncGenerator[Event, None]:
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


def test_tokens_that_are_held_for_a_chunk_are_silence() -> None:
    """So that a client is told that its stream lives."""

    async def main() -> list[list[Event]]:
        async def source(sink: Sink) -> AsyncGenerator[Event, None]:
            return source_of(DELTAS, asyncio.Event())

        async with Feed(source, silence, coalescer=Coalescer(9)) as feed:
            return [await feed.take(), await feed.take(0.001)]

    assert asyncio.run(main()) == [DELTAS[:1], []]


def test_events_that_just_end_are_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> list[Event]:
        async def nothing(sink: Sink) -> AsyncGenerator[Event, None]:
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

        async def source(sink: Sink) -> AsyncGenerator[Event, None]:
            return source_of(DELTAS, is_closed)

        async with Feed(source, goodbye) as feed:
            await is_closed.wait()
            with pytest.raises(Disconnected):
                await feed.take()

    asyncio.run(main())


def test_a_deadline_ends_the_source_and_is_told() -> None:
    async def main() -> list[Event]:
        is_closed = asyncio.Event()

        async def source(sink: Sink) -> AsyncGenerator[Event, None]:
            return source_of(DELTAS, is_closed)

        async with Feed(source, silence, timeout_s=0.01) as feed:
            taken = await feed.take()
            while not isinstance(taken[-1], Failed):
                taken += await feed.take()
            await is_closed.wait()
        return taken

    *deltas, failed = asyncio.run(main())
    assert deltas == DELTAS
    assert isinstance(failed, Failed)
    assert failed.code == "timeout"


async def stand_still(until: asyncio.Event) -> None:
    """A write to a client that does not read."""
    await until.wait()


def test_scores_of_prompts_are_no_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were counted with the request. One prompt's could cut off a client that was reading."""
    monkeypatch.setattr(feed, "MAX_BACKLOG", 100)
    score = TokenScore(1, b"a", -1.0, 1, (Alternative(2, b"b", -2.0),) * 20)
    events = [Prompted(each, (1,) * 10, 0, scores=columns([score] * 10)) for each in range(4)]

    async def main() -> list[Event]:
        has_put = asyncio.Event()

        async def source(sink: Sink) -> AsyncGenerator[Event, None]:
            async def all_at_once() -> AsyncGenerator[Event, None]:
                for event in events:
                    yield event
                has_put.set()
                await asyncio.Event().wait()

            return all_at_once()

        async with Feed(source, silence) as reading:
            await reading.pass_on(stand_still(has_put))
            return await reading.take()

    assert asyncio.run(main()) == events


def test_a_reader_that_stands_still_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """What arrives while a write waits is counted; past the bound the engine is told to stop."""
    monkeypatch.setattr(feed, "MAX_BACKLOG", 100)
    seen: list[Event] = []

    async def main() -> tuple[list[Event], int]:
        is_closed = asyncio.Event()
        num_made = 0

        async def source(sink: Sink) -> AsyncGenerator[Event, None]:
            async def endless() -> AsyncGenerator[Event, None]:
                nonlocal num_made
                try:
                    while True:
                        num_made += 1
                        yield DELTAS[0]
                        await asyncio.sleep(0)
                finally:
                    is_closed.set()

            return endless()

        async with Feed(source, silence, watch=seen.append) as reading:
            await reading.pass_on(stand_still(is_closed))
            return await reading.take(), num_made

    taken, num_made = asyncio.run(main())
    assert taken == seen
    assert num_made <= 52
    assert isinstance(taken[-1], Failed)
    assert "not read fast enough" in taken[-1].message


def test_a_feed_ends_with_its_request() -> None:
    """Without waiting for the garbage collector: a request can hold megabytes."""

    async def main() -> None:
        async def source(sink: Sink) -> AsyncGenerator[Event, None]:
            return source_of(DELTAS, asyncio.Event())

        async with Feed(source, silence) as reading:
            await reading.take()
        gone = weakref.ref(reading)
        del reading
        await asyncio.sleep(0)
        assert gone() is None

    gc.collect()
    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()


@pytest.mark.parametrize("open_for", range(5))
def test_events_keep_their_order_whichever_way_they_go(open_for: int) -> None:
    """Written directly while the client keeps up, taken by the endpoint afterwards: none twice, none lost."""

    async def main() -> tuple[list[Event], list[Event]]:
        written: list[Event] = []
        handed: list[Sink] = []
        may_end = asyncio.Event()

        async def source(sink: Sink) -> AsyncGenerator[Event, None]:
            async def generate() -> AsyncGenerator[Event, None]:
                handed.append(sink)
                await may_end.wait()
                yield Done(Usage(1, 3, 0), 5)

            return generate()

        def direct(events: Sequence[Event]) -> bool:
            if len(written) >= open_for:
                return False
            written.extend(events)
            return True

        async with Feed(source, silence) as reading:
            reading.direct = direct
            while not handed:
                await asyncio.sleep(0)
            for delta in DELTAS:
                handed[0]([delta])
            may_end.set()
            taken: list[Event] = []
            while not taken or not isinstance(taken[-1], Done):
                taken += await reading.take()
        return written, taken

    written, taken = asyncio.run(main())
    assert written == DELTAS[:open_for]
    assert [*written, *taken] == [*DELTAS, Done(Usage(1, 3, 0), 5)]


def test_a_direct_write_that_fails_ends_the_request(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> list[Event]:
        is_closed = asyncio.Event()

        async def source(sink: Sink) -> AsyncGenerator[Event, None]:
            sink([DELTAS[0]])
            return source_of((), is_closed)

        def direct(events: Sequence[Event]) -> bool:
            raise ValueError("no rendering of this")

        async with Feed(source, silence) as reading:
            reading.direct = direct
            taken = await reading.take()
        return taken

    assert asyncio.run(main()) == [FAULT]
    assert "no rendering of this" in caplog.text
