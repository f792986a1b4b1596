import asyncio
from collections.abc import Sequence

import pytest

from segue.engine.process.mailbox import Mailbox
from segue.types import Delta, Done, Event, Failed, Usage

DELTAS: list[Event] = [Delta(0, word, (1,)) for word in ("a", "b")]
ENDS: list[Event] = [Done(Usage(1, 2, 0), 5), Failed("engine_died", "gone")]


@pytest.mark.parametrize("end", ENDS)
def test_a_sink_gets_everything_but_the_end(end: Event) -> None:
    async def main() -> list[Event]:
        mailbox = Mailbox(told.append)
        reading = asyncio.ensure_future(mailbox.take())
        mailbox.put(DELTAS[:1])
        mailbox.put([*DELTAS, end])
        return await reading

    told: list[Sequence[Event]] = []
    assert asyncio.run(main()) == [end]
    assert told == [DELTAS[:1], DELTAS]


def test_without_a_sink_all_is_kept_in_order() -> None:
    async def main() -> list[Event]:
        mailbox = Mailbox()
        mailbox.put(DELTAS)
        mailbox.put(ENDS[:1])
        return await mailbox.take()

    assert asyncio.run(main()) == [*DELTAS, ENDS[0]]
