"""The worker dies in every way it can, under real clients over HTTP."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator

import httpx2
import pytest

from segue.engine.process import supervisor
from tests.support import faults
from tests.support.faults import FaultyLoader
from tests.support.live import Live

TOLD_S = 2.0  # how soon every open stream must have its error event
BACK_S = 10.0
STEP_TIMEOUT_S = 1.5


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    """Its worker comes back at once however often it dies; the pauses have a test of their own."""
    loader = FaultyLoader(script=b"x", context_length=200_000, num_cells=400_000, num_slots=32)
    with (
        pytest.MonkeyPatch.context() as patch,
        Live(loader, step_timeout_s=STEP_TIMEOUT_S) as server,
    ):
        patch.setattr(supervisor, "LONGEST_PAUSE_S", 0.05)
        yield server


def wait_until_served(live: Live) -> float:
    begun = time.monotonic()
    while time.monotonic() - begun < BACK_S:
        if live.complete(max_tokens=2).status_code == 200:
            return time.monotonic() - begun
        time.sleep(0.05)
    raise AssertionError(f"not served again within {BACK_S} s")


class Reader(threading.Thread):
    """One stream, read to its end. `is_running` is set by its first token."""

    def __init__(self, live: Live, prompt: str, stream: bool = True) -> None:
        super().__init__()
        self._live, self._body = live, {"prompt": prompt, "max_tokens": 150_000, "stream": stream}
        self.is_running = threading.Event()
        self.lines: list[str] = []
        self.ended_at = 0.0
        self.answer: httpx2.Response | None = None
        self.start()

    def run(self) -> None:
        with (
            httpx2.Client(base_url=self._live.url, timeout=60) as client,
            client.stream("POST", "/v1/completions", json=self._body) as self.answer,
        ):
            for line in self.answer.iter_lines():
                self.is_running.set()
                self.lines = [*self.lines[-3:], line] if line else self.lines
        self.ended_at = time.monotonic()
        self.is_running.set()


def assert_told(reader: Reader, died_at: float) -> None:
    reader.join(30)
    assert reader.ended_at - died_at < TOLD_S
    *_, error, done = reader.lines
    assert json.loads(error.removeprefix("data: "))["error"]["code"] == "engine_died"
    assert done == "data: [DONE]"


def test_kill_9_under_16_streams(live: Live) -> None:
    readers = [Reader(live, f"stream {i}") for i in range(16)]
    plain = Reader(live, "not streamed", stream=False)
    for reader in readers:
        assert reader.is_running.wait(20)
    restarts = live.stats().restarts
    assert live.supervisor.pid is not None
    os.kill(live.supervisor.pid, signal.SIGKILL)
    died_at = time.monotonic()
    for reader in readers:
        assert_told(reader, died_at)
    plain.join(30)
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
        faults.HANG,
        faults.SPIN,
    ],
)
def test_a_runner_that_ends_or_hangs_the_worker(live: Live, fault: str) -> None:
    """Whoever else was running is told; nobody's request is tried again behind their back."""
    wait_until_served(live)
    bystander = Reader(live, "bystander")
    assert bystander.is_running.wait(20)
    begun = time.monotonic()
    answer = live.complete(prompt=fault)
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "engine_died"
    assert time.monotonic() - begun < TOLD_S + STEP_TIMEOUT_S
    assert_told(bystander, begun + STEP_TIMEOUT_S)
    wait_until_served(live)


@pytest.mark.parametrize("fault", [faults.NAN, faults.INFINITE])
def test_numbers_that_are_none_fail_their_own_request_only(live: Live, fault: str) -> None:
    wait_until_served(live)
    restarts = live.stats().restarts
    alone = live.complete(max_tokens=400, prompt="beside").json()["choices"]
    answers: list[httpx2.Response] = []
    ask = threading.Thread(target=lambda: answers.append(live.complete(prompt=fault)))
    ask.start()
    assert live.complete(max_tokens=400, prompt="beside").json()["choices"] == alone
    ask.join(20)
    assert answers[0].status_code == 500
    assert answers[0].json()["error"]["code"] == "engine_fault"
    assert live.stats().restarts == restarts


def test_a_request_at_two_crashes_in_a_row_is_named_by_its_id(
    live: Live, caplog: pytest.LogCaptureFixture
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
