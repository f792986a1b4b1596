"""Threads that work off jobs of which some may take for ever: one that is stuck is replaced, and its job given up.

Nothing can interrupt llguidance, and no limit of its own bounds what one call takes. So a thread that has been at a job
for long no longer counts: another one is started in its place, the job goes on at low priority, and the thread ends
with it. After some time more whoever waits for the job is told that it failed.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, TypeVar

from segue.engine.constraints.threads.priority import step_back

OVERDUE_S = 0.1  # so long a thread may be at a job before it is replaced
GIVE_UP_S = 30.0  # so long anybody waits for a job
MOST = 16  # threads of a pool, with those that are stuck
_IDLE_TICKS = 20  # looks at nothing, until the watchdog sleeps

Job = TypeVar("Job")


@dataclass
class Assignment(Generic[Job]):
    """What a thread is at."""

    job: Job
    since_s: float
    thread_id: int
    is_overdue: bool = False
    is_given_up: bool = False


def _do_nothing(*_: object) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Work(Generic[Job]):
    """Where jobs come from, and what is done with them. `take` and `end` are called with the pool's lock held."""

    take: Callable[[], Job | None]
    run: Callable[[Job], None]
    end: Callable[[Job, float], None] = _do_nothing  # it is told the seconds that the job took
    prepare: Callable[[], None] = _do_nothing  # is called by each thread first
    overdue_s: float = OVERDUE_S


class Pool(Generic[Job]):
    """Every method is called with the lock held."""

    def __init__(
        self,
        name: str,
        size: int,
        lock: threading.Lock,
        work: Work[Job],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._size, self._lock, self._work = name, size, lock, work
        self._clock = clock
        self._calls: SimpleQueue[None] = SimpleQueue()  # to threads that are idle
        self._num_idle = 0
        self._num_threads = 0
        self._turns: list[Assignment[Job]] = []

    @property
    def is_resting(self) -> bool:
        return not self._turns

    def call(self) -> bool:
        """There may be a job: have a thread take it, if one is left. Returns whether there is any thread at all."""
        if self._num_idle:
            self._num_idle -= 1
            self._calls.put(None)
        elif self._num_counted < self._size and self._num_threads < MOST:
            self._start()
        return self._num_threads > 0

    @property
    def _num_counted(self) -> int:
        return self._num_threads - sum(turn.is_overdue for turn in self._turns)

    def _start(self) -> None:
        self._num_threads += 1
        try:
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        except RuntimeError:  # the system has no more
            self._num_threads -= 1

    def look(self) -> list[Job]:
        """Find threads that are stuck; to be called now and then. Returns the jobs that are given up now."""
        now, given_up = self._clock(), list[Job]()
        for turn in self._turns:
            if not turn.is_overdue and now - turn.since_s > self._work.overdue_s:
                turn.is_overdue = True
                step_back(turn.thread_id)
            if not turn.is_given_up and now - turn.since_s > GIVE_UP_S:
                turn.is_given_up = True
                given_up.append(turn.job)
        return given_up

    def _serve(self) -> None:
        self._work.prepare()
        thread_id = threading.get_native_id()
        with self._lock:
            while self._goes_on(thread_id):
                pass

    def _goes_on(self, thread_id: int) -> bool:
        """Do one job, or wait for one. Returns whether the thread stays: another has come for one that was stuck."""
        job = self._work.take()
        if job is None:
            self._num_idle += 1
            self._lock.release()
            self._calls.get()  # whoever calls takes it out of those that are idle
            self._lock.acquire()
            return True
        turn = Assignment(job, self._clock(), thread_id)
        self._turns.append(turn)
        self._lock.release()
        try:
            self._work.run(job)
        finally:
            self._lock.acquire()
            self._turns.remove(turn)
            self._num_threads -= turn.is_overdue
            self._work.end(job, self._clock() - turn.since_s)
        return not turn.is_overdue


class Watchdog:
    """A thread that looks at pools now and then, for as long as they work."""

    def __init__(self, lock: threading.Lock, look: Callable[[], bool]) -> None:
        """`look` is called without the lock, and tells whether there is anything to look at."""
        self._look = look
        self._woken = threading.Condition(lock)
        self._is_wanted = False  # since the last look
        self._is_started = False
        self._num_idle = 0  # looks at nothing, one after another

    def wake(self) -> None:
        """To be called with the lock held, when there is something to look at."""
        self._is_wanted = True
        self._woken.notify()
        if not self._is_started:
            with contextlib.suppress(RuntimeError):  # the system has no more threads: another time
                threading.Thread(target=self._serve, name="watchdog", daemon=True).start()
                self._is_started = True

    def _serve(self) -> None:
        while True:
            time.sleep(OVERDUE_S)
            self.look()

    def look(self) -> None:
        """Look once. After many looks at nothing, wait until there is something."""
        with self._woken:
            if self._num_idle > _IDLE_TICKS:
                self._woken.wait_for(lambda: self._is_wanted)
            was_wanted, self._is_wanted = self._is_wanted, False
        is_idle = not (self._look() or was_wanted)
        self._num_idle = self._num_idle + 1 if is_idle else 0
