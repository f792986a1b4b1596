"""The worker dies in every way it can, under real clients over HTTP."""

import contextlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from segue.engine.process import new_worker, supervisor
from segue.engine.process.spawning import start_apart
from tests.support import faults
from tests.support.faults import FaultyLoader
from tests.support.live import Live
from tests.support.waiting import PATIENCE_S, wait_until

STEP_TIMEOUT_S = 600.0  # no step of a busy machine takes longer
SHORT_S = 0.5


class Mortal(Live):
    """Its worker comes back at once however often it dies, unless it is held; pauses have a test of their own."""

    def __init__(self) -> None:
        self._may_start = threading.Event()
        self._may_start.set()
        super().__init__(
            FaultyLoader(script=b"x", context_length=200_000, num_cells=400_000, num_slots=32),
            step_timeout_s=STEP_TIMEOUT_S,
        )

    def start_worker(self, *arguments: Any) -> None:
        """As `start_apart`, but for the wait."""
        assert self._may_start.wait(PATIENCE_S)
        start_apart(*arguments)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """A worker that dies in here is not started again before the end: what clients are told, they are told
        without it."""
        self._may_start.clear()
        try:
            yield
        finally:
            self._may_start.set()

    @contextlib.contextmanager
    def impatient(self) -> Iterator[None]:
        """Steps may take a moment only. To be used while one hangs that never ends."""
        self.supervisor._step_timeout_s = SHORT_S
        try:
            yield
        finally:
            self.supervisor._step_timeout_s = STEP_TIMEOUT_S


@pytest.fixture(scope="module")
def live() -> Iterator[Mortal]:
    with pytest.MonkeyPatch.context() as patch, Mortal() as server:
        patch.setattr(supervisor, "LONGEST_PAUSE_S", 0.05)
        patch.setattr(new_worker, "start_apart", server.start_worker)
        yield server


def wait_until_served(live: Live) -> None:
    wait_until(lambda: live.complete(max_tokens=2).status_code == 200)


class Reader(threading.Thread):
    """One stream, read to its end. `is_running` is set by its first token."""

    def __init__(self, live: Live, prompt: str, stream: bool = True) -> None:
        super().__init__()
        self._live, self._body = live, {"prompt": prompt, "max_tokens": 150_000, "stream": stream}
        self.is_running = threading.Event()
        self.lines: list[str] = []
        self.answer: httpx2.Response | None = None
        self.start()

    def run(self) -> None:
        with (
            httpx2.Client(base_url=self._live.url, timeout=PATIENCE_S) as client,
            client.stream("POST", "/v1/completions", json=self._body) as self.answer,
        ):
            for line in self.answer.iter_lines():
                self.is_running.set()
                self.lines = [*self.lines[-3:], line] if line else self.lines
        self.is_running.set()


def assert_told(reader: Reader) -> None:
    reader.join(PATIENCE_S)
    assert not reader.is_alive()
    *_, error, done = reader.lines
    assert json.loads(error.removeprefix("data: "))["error"]["code"] == "engine_died"
    assert done == "data: [DONE]"


def test_kill_9_under_16_streams(live: Mortal) -> None:
    readers = [Reader(live, f"stream {i}") for i in range(16)]
    plain = Reader(live, "not streamed", stream=False)
    for reader in readers:
        assert reader.is_running.wait(PATIENCE_S)
    restarts = live.stats().restarts
    assert live.supervisor.pid is not None
    with live.held():
        os.kill(live.supervisor.pid, signal.SIGKILL)
        for reader in readers:
            assert_told(reader)
        plain.join(PATIENCE_S)
        assert plain.answer is not None
        assert plain.answer.status_code == 503
        assert int(plain.answer.headers["retry-after"]) >= 1
        health = live.client.get("/health")
        assert health.status_code == 503
        assert "retry-after" in health.headers
        assert live.client.get("/livez").status_code == 200
        refused = live.complete()
        assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
    wait_until_served(live)
    assert live.client.get("/health").status_code == 200
    stats = live.stats()
    assert (stats.restarts, stats.running, stats.waiting) == (restarts + 1, 0, 0)


@pytest.mark.parametrize(
    "fault",
    [
        faults.RAISE,
        faults.CRASH,
        faults.KILLED,
        faults.EXIT,
        faults.NARROW,
        faults.SHORT,
    ],
)
def test_a_runner_that_ends_the_worker(live: Mortal, fault: str) -> None:
    """Whoever else was running is told; nobody's request is tried again behind their back."""
    wait_until_served(live)
    bystander = Reader(live, "bystander")
    assert bystander.is_running.wait(PATIENCE_S)
    with live.held():
        answer = live.complete(prompt=fault)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "engine_died"
        assert_told(bystander)
    wait_until_served(live)


@pytest.mark.parametrize("fault", [faults.HANG, faults.SPIN])
def test_a_runner_that_hangs_the_worker(live: Mortal, fault: str) -> None:
    wait_until_served(live)
    bystander = Reader(live, "bystander")
    assert bystander.is_running.wait(PATIENCE_S)
    hanging = Reader(live, fault, stream=False)
    wait_until(lambda: live.stats().running == 2)  # told before the step that reads the fault
    with live.held():
        with live.impatient():
            assert_told(bystander)
            hanging.join(PATIENCE_S)
        assert hanging.answer is not None
        assert hanging.answer.status_code == 503
        assert json.loads(hanging.lines[0])["error"]["code"] == "engine_died"
    wait_until_served(live)


@pytest.mark.parametrize("fault", [faults.NAN, faults.INFINITE])
def test_numbers_that_are_none_fail_their_own_request_only(live: Mortal, fault: str) -> None:
    wait_until_served(live)
    restarts = live.stats().restarts
    alone = live.complete(max_tokens=400, prompt="beside").json()["choices"]
    answers: list[httpx2.Response] = []
    ask = threading.Thread(target=lambda: answers.append(live.complete(prompt=fault)))
    ask.start()
    assert live.complete(max_tokens=400, prompt="beside").json()["choices"] == alone
    ask.join(PATIENCE_S)
    assert answers[0].status_code == 500
    assert answers[0].json()["error"]["code"] == "engine_fault"
    assert live.stats().restarts == restarts


def test_a_request_at_two_crashes_in_a_row_is_named_by_its_id(
    live: Mortal, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        wait_until_served(live)
        caplog.clear()
        sent = live.client.post(
            "/v1/completions",
            json={"prompt": f"{faults.EXIT} of a secret"},
            headers={"x-request-id": "mine"},
        )
        assert sent.status_code == 503
    named = [r.getMessage() for r in caplog.records if "two crashes in a row" in r.getMessage()]
    assert len(named) == 1
    assert "secret" not in caplog.text
    wait_until_served(live)
