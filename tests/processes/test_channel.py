import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from segue.errors import EngineFault, InvalidField, SetupError, Unavailable
from segue.processes.channel import Channel
from segue.processes.messages import Answer, Keep, Kept, Message, Open, Started, Stop
from tests.support.waiting import PATIENCE_S

Handler = Callable[[Message], Awaitable[Answer]]


async def silent(message: Message) -> Answer:
    return None


async def pair(
    left: Handler, right: Handler
) -> tuple[Channel, Channel, list["asyncio.Task[None]"]]:
    one, two = socket.socketpair()
    channels = (await Channel.over(one, left), await Channel.over(two, right))
    return *channels, [asyncio.create_task(channel.serve()) for channel in channels]


async def end(tasks: list["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_both_sides_call_and_answers_find_their_calls() -> None:
    """Also if a later call is answered first."""

    async def main() -> None:
        gate = asyncio.Event()

        async def slow(message: Message) -> Answer:
            if isinstance(message, Open):
                if message.model == "slow":
                    await gate.wait()
                return message.model
            gate.set()
            return None

        async def number(message: Message) -> Answer:
            return 1.5

        parent, child, tasks = await pair(slow, number)
        async with asyncio.timeout(PATIENCE_S):
            first = asyncio.create_task(child.call(Open("slow")))
            assert await child.call(Open("quick")) == "quick"
            assert not first.done()
            assert await parent.call(Kept("x", None)) == 1.5
            await child.call(Started())
            assert await first == "slow"
        await end(tasks)

    asyncio.run(main())


def test_errors_are_raised_by_the_caller() -> None:
    async def main() -> None:
        async def refuse(message: Message) -> Answer:
            match message:
                case Keep():
                    raise ValueError("secret")
                case Open("later"):
                    raise Unavailable("not yet", retry_after_s=4.0)
                case Open("damaged"):
                    raise SetupError("/a/file is damaged")
            raise InvalidField("id must be smaller", "id")

        _, child, tasks = await pair(refuse, silent)
        with pytest.raises(InvalidField, match="must be smaller") as refusal:
            await child.call(Open("x"))
        assert refusal.value.param == "id"
        with pytest.raises(Unavailable, match="not yet") as later:
            await child.call(Open("later"))
        assert later.value.retry_after_s == 4.0
        # A load that failed: no client is told of the file, as open_engine sees to.
        with pytest.raises(SetupError, match="damaged"):
            await child.call(Open("damaged"))
        with pytest.raises(EngineFault, match="the call failed"):
            await child.call(Keep("x", 1.0))
        await end(tasks)

    asyncio.run(main())


def test_calls_fail_when_the_other_side_is_gone() -> None:
    async def main() -> None:
        async def never(message: Message) -> Answer:
            await asyncio.Event().wait()
            return None

        parent, child, tasks = await pair(never, silent)
        waiting = asyncio.create_task(child.call(Open("x")))
        await parent.call(Stop())  # an answer: so the child's call has been sent
        tasks[0].cancel()
        with pytest.raises(Unavailable):
            await waiting
        await tasks[1]
        with pytest.raises(Unavailable):
            await child.call(Started())
        await end(tasks)

    asyncio.run(main())
