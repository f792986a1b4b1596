"""Every case of the corpus, alone and beside streams whose bytes must not change."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from segue.runners.fake import FakeLoader
from segue.server.admission.hosts import Hosts
from tests.hostile.corpus import Case, cases, send
from tests.support.live import Live
from tests.support.waiting import PATIENCE_S

CASES = cases()
NUM_VICTIMS = 1  # with three choices
BUSY = 10  # so much slower may everything be while other tests run
NUM_TRIES = 5  # the best one counts: the machine may stand still in any of them
VICTIM = {
    "prompt": "The victim's own words, ",
    "max_tokens": 120,
    "seed": 5,
    "stream": True,
    "logprobs": 2,
    "n": 3,
    "cache_prompt": False,
}


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with Live(FakeLoader(), hosts=Hosts("127.0.0.1")) as server:
        yield server


@pytest.fixture(scope="module")
def trap() -> Iterator[socket.socket]:
    """A port that prompts and fields name, and that nobody may call."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


def read_victim(client: httpx2.Client) -> dict[Any, list[Any]]:
    """The chunks of each choice in order, without their ids and times.

    Which choice comes first is not promised: beside a long prompt one of them may begin a step later.
    """
    with client.stream("POST", "/v1/completions", json=VICTIM) as answer:
        *lines, last = [line for line in answer.iter_lines() if line]
    choices: dict[Any, list[Any]] = {"last": [last]}
    for line in lines:
        for choice in json.loads(line.removeprefix("data: "))["choices"]:
            choices.setdefault(choice["index"], []).append(choice)
    return choices


class Victims:
    """Streams that run again and again in the background, each held against the first."""

    def __init__(self, live: Live) -> None:
        self._live = live
        with httpx2.Client(base_url=live.url, timeout=PATIENCE_S) as client:
            self._reference = read_victim(client)
        self._is_over = threading.Event()
        self.num_read = [0] * NUM_VICTIMS
        self.changed: list[Any] = []
        self._threads = [
            threading.Thread(target=self._read, args=(number,)) for number in range(NUM_VICTIMS)
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, number: int) -> None:
        with httpx2.Client(base_url=self._live.url, timeout=PATIENCE_S) as client:
            while not (self._is_over.is_set() and self.num_read[number]):  # at least once
                read = read_victim(client)
                self.num_read[number] += 1
                if read != self._reference:
                    self.changed.append(read)

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)


@pytest.fixture(scope="module")
def crowded() -> Iterator[Live]:
    """Another server: whichever test comes first, no victim is on the one above."""
    with Live(FakeLoader(), hosts=Hosts("127.0.0.1")) as server:
        yield server


@pytest.fixture(scope="module")
def victims(crowded: Live) -> Iterator[Victims]:
    running = Victims(crowded)
    yield running
    running.stop()


def check(live: Live, trap: socket.socket, case: Case) -> float:
    """How long the answer took, which was the right one."""
    received, elapsed = timed(live, trap, case)
    assert case.accepts(received), f"{case.name}: {received[:2000]!r} where {case.expect} is right"
    with pytest.raises(BlockingIOError):
        trap.accept()
    return elapsed


def timed(live: Live, trap: socket.socket, case: Case) -> tuple[bytes, float]:
    begun = time.monotonic()
    sent, address = case.request(trap.getsockname()[1]), (live.host, live.port)
    received = send(address, sent, case.then.encode(), to_the_end=case.answers is not None)
    return received, time.monotonic() - begun


def ids(case: Case) -> str:
    return f"{case.source}: {case.name}".encode("unicode_escape").decode()[:80]


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_alone(live: Live, trap: socket.socket, case: Case) -> None:
    most = case.max_seconds
    for _ in range(NUM_TRIES):
        if check(live, trap, case) < most:
            return
        most = BUSY * case.max_seconds
    pytest.fail(f"it took more than {most:g} seconds, {NUM_TRIES} times")


def test_nothing_is_left_behind(live: Live) -> None:
    """Once all of them have been answered, no slot is busy and the worker is the first one still."""
    live.wait_until_idle()
    assert live.stats().restarts == 0
    assert live.complete(max_tokens=4).status_code == 200


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_beside_victims(crowded: Live, trap: socket.socket, victims: Victims, case: Case) -> None:
    """However long it takes here: how long a stream may be silent is measured by bench/hostile.py."""
    check(crowded, trap, case)
    assert victims.changed == []


def test_the_victims_never_noticed(crowded: Live, victims: Victims) -> None:
    victims.stop()
    assert victims.changed == []
    assert all(victims.num_read)
    assert crowded.stats().restarts == 0
