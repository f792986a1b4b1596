"""Threads that are stuck are replaced: a clock that is set by hand, and jobs that end when a test says so."""

import threading
from collections import deque

import pytest

from segue.engine.constraints.threads import pool as pools
from segue.engine.constraints.threads.pool import GIVE_UP_S, MOST, OVERDUE_S, Pool, Watchdog, Work

PATIENCE_S = 60.0


class Job:
    def __init__(self) -> None:
        self.has_begun, self.may_end, self.has_ended = (threading.Event() for _ in range(3))


class Site:
    """A pool of two with a queue."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.lock = threading.Lock()
        self.waiting: deque[Job] = deque()
        self.took_s: list[float] = []
        work = Work(
            take=self._take, run=self._run, end=lambda _, took_s: self.took_s.append(took_s)
        )
        self.pool = Pool("t", 2, self.lock, work, lambda: self.now_s)

    def _take(self) -> Job | None:
        return self.waiting.popleft() if self.waiting else None

    def _run(self, job: Job) -> None:
        job.has_begun.set()
        assert job.may_end.wait(PATIENCE_S)
        job.has_ended.set()

    def put(self) -> Job:
        job = Job()
        with self.lock:
            self.waiting.append(job)
            self.pool.call()
        return job

    def look(self) -> list[Job]:
        with self.lock:
            given_up = self.pool.look()
            if self.waiting:
                self.pool.call()
            return given_up


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(pools, "step_back", lambda _: None)  # the threads of tests keep their rank
    return Site()


def test_two_jobs_run_and_the_third_waits(site: Site) -> None:
    first, second, third = (site.put() for _ in range(3))
    assert first.has_begun.wait(PATIENCE_S)
    assert second.has_begun.wait(PATIENCE_S)
    site.now_s = OVERDUE_S / 2
    assert site.look() == []
    assert list(site.waiting) == [third]
    first.may_end.set()
    assert third.has_begun.wait(PATIENCE_S)
    for job in (second, third):
        job.may_end.set()


def test_threads_that_are_stuck_are_replaced(site: Site) -> None:
    stuck = [site.put() for _ in range(2)]
    for job in stuck:
        assert job.has_begun.wait(PATIENCE_S)
    quick = site.put()
    site.now_s = 2 * OVERDUE_S
    assert site.look() == [], "nobody is told yet"
    assert quick.has_begun.wait(PATIENCE_S)
    for job in (*stuck, quick):
        job.may_end.set()
        assert job.has_ended.wait(PATIENCE_S)


def test_there_are_never_more_than_so_many(site: Site) -> None:
    stuck: list[Job] = []
    for turn in range(MOST):
        stuck.append(site.put())
        assert stuck[-1].has_begun.wait(PATIENCE_S)
        site.now_s += 2 * OVERDUE_S
        site.look()
        assert site.pool._num_threads == turn + 1
    last = site.put()
    site.look()
    assert list(site.waiting) == [last]
    stuck[0].may_end.set()
    assert stuck[0].has_ended.wait(PATIENCE_S)
    while site.pool._num_threads == MOST:  # until that thread has gone
        threading.Event().wait(0.001)
    site.look()
    assert last.has_begun.wait(PATIENCE_S)
    for job in (*stuck, last):
        job.may_end.set()


def test_a_job_is_given_up_once(site: Site) -> None:
    job = site.put()
    assert job.has_begun.wait(PATIENCE_S)
    site.now_s = GIVE_UP_S + 1
    assert site.look() == [job]
    assert site.look() == []
    job.may_end.set()
    while not site.took_s:
        threading.Event().wait(0.001)
    assert site.took_s == [GIVE_UP_S + 1]


def test_no_thread_can_be_started(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    with site.lock:
        assert not site.pool.call()


def test_a_watch_that_would_sleep_looks_again_if_it_was_woken_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between its last look at nothing and its sleep: nobody would have looked at that job."""
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)
    lock, calls = threading.Lock(), list[str]()

    def look() -> bool:
        if len(calls) == 1:
            with lock:
                watchdog.wake()
        calls.append("look")
        return False

    watchdog = Watchdog(lock, look)
    with lock:
        watchdog.wake()
    watchdog.look()
    monkeypatch.setattr(watchdog._woken, "wait", lambda *_: pytest.fail("it sleeps"))
    for num_idle in (pools._IDLE_TICKS, pools._IDLE_TICKS + 1):
        watchdog._num_idle = num_idle
        watchdog.look()
    assert len(calls) == 3
