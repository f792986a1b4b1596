"""Five hundred clients that leave at random moments: no slot stays busy, nothing is kept."""

import asyncio
import json
import os
import random
import struct
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET

import pytest

from segue.runners.fake import FakeLoader
from tests.support.live import Live
from tests.support.waiting import wait_until

NUM_CLIENTS = 500
AT_ONCE = 50


async def leave_early(live: Live, dice: random.Random) -> None:
    """Send all or part of a request, read for a moment, and go: politely or not."""
    body = json.dumps(
        {
            "prompt": "x" * dice.choice([1, 10, 500, 2000]),
            "max_tokens": dice.choice([1, 50, 3000]),
            "n": dice.choice([1, 1, 4]),
            "stream": dice.random() < 0.6,
            "logprobs": dice.choice([None, 3]),
        }
    ).encode()
    head = "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    request = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
    cut = len(request) if dice.random() < 0.9 else dice.randrange(len(request))
    reader, writer = await asyncio.open_connection(live.host, live.port)
    writer.write(request[:cut])
    try:
        async with asyncio.timeout(dice.choice([0.0, 0.001, 0.02, 0.2])):
            while await reader.read(dice.choice([1, 1000, 65536])):
                pass
    except TimeoutError:
        pass
    if dice.random() < 0.3:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()


async def storm(live: Live, num_clients: int, seed: int) -> None:
    dice = random.Random(seed)
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(own: random.Random) -> None:
        async with gate:
            await leave_early(live, own)

    await asyncio.gather(*(one(random.Random(dice.random())) for _ in range(num_clients)))


def private_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text("latin-1")
    wanted = ("RssAnon:", "VmSwap:")
    return sum(int(line.split()[1]) for line in status.splitlines() if line.startswith(wanted))


def num_open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def num_tasks() -> int:
    return len(asyncio.all_tasks())


def wait_until_all_have_left(live: Live) -> None:
    """The server hears later than its clients that they have left."""
    # The server's own, the supervisor's two, and this question.
    wait_until(lambda: live.ask(num_tasks()) <= 6)
    live.wait_until_idle()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")
def test_a_storm_of_disconnects_leaves_nothing() -> None:
    with Live(FakeLoader(num_slots=16)) as live:
        asyncio.run(storm(live, 150, seed=1))
        wait_until_all_have_left(live)
        pid = live.supervisor.pid
        assert pid is not None
        fds, memory = num_open_files(), private_kib(pid)
        asyncio.run(storm(live, NUM_CLIENTS, seed=2))
        wait_until_all_have_left(live)
        grown = private_kib(pid) - memory
        assert live.complete(max_tokens=3).status_code == 200
        assert live.supervisor.pid == pid
        assert grown < 16 << 10, f"the worker grew by {grown} KiB"
        wait_until(lambda: num_open_files() <= fds + 2)
        assert live.stats().cancelled > 0  # how many depends on how soon the machine takes requests


def test_a_queued_clients_leaving_does_not_touch_the_one_that_runs() -> None:
    """One slot: A runs, B waits behind it and leaves, again and again; A's text stays the same."""
    asked = {"prompt": "a", "max_tokens": 2000, "logit_bias": {"256": -100}, "cache_prompt": False}
    with Live(FakeLoader(num_slots=1)) as live:
        alone = live.complete(**asked).json()["choices"]

        async def crowd() -> object:
            running = asyncio.create_task(asyncio.to_thread(live.complete, **asked))
            while not running.done():
                await leave_early(live, random.Random(3))
            return (await running).json()["choices"]

        assert asyncio.run(crowd()) == alone
