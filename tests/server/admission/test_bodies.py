import asyncio
from collections.abc import Iterator

import pytest
from starlette.types import Message

from segue.bounds import MAX_BODIES_HELD, MAX_BODIES_SHARE
from segue.errors import Overloaded, Unavailable
from segue.server.admission.bodies import Bodies

SIZE = 1000


def sender(size: int) -> Iterator[Message]:
    yield {"type": "http.request", "body": b"x" * size}


async def held(bodies: Bodies, holders: list[str]) -> None:
    """Bodies of the largest size, all at once."""
    stack = []
    try:
        for holder in holders:
            messages = sender(SIZE)

            async def receive(messages: Iterator[Message] = messages) -> Message:
                return next(messages)

            reading = bodies.read(receive, holder)
            stack.append(reading)
            assert len(await reading.__aenter__()) == SIZE
    finally:
        for reading in reversed(stack):
            await reading.__aexit__(None, None, None)


@pytest.mark.parametrize("num_processes", [1, 2, 64])
def test_processes_divide_the_memory_for_bodies(num_processes: int) -> None:
    most = max(MAX_BODIES_HELD // num_processes, 1)
    share = max(MAX_BODIES_SHARE // num_processes, 1)
    bodies = Bodies(SIZE, 30.0, num_processes)
    asyncio.run(held(bodies, [f"{i}" for i in range(most)]))
    with pytest.raises(Unavailable):
        asyncio.run(held(bodies, [f"{i}" for i in range(most + 1)]))
    bodies = Bodies(SIZE, 30.0, num_processes)
    asyncio.run(held(bodies, ["one"] * share))
    with pytest.raises(Overloaded):
        asyncio.run(held(bodies, ["one"] * (share + 1)))
