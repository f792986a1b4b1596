"""The threads that find masks. Lexers known to be slow have their own, at low priority: no other waits for them."""

import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Any

from segue.engine.constraints.threads.fair_queue import FairQueue, Lexer, MaskJob
from segue.engine.constraints.threads.pool import Pool, Watchdog, Work
from segue.engine.constraints.threads.priority import step_back

log = logging.getLogger("segue.constraint")

NUM_QUICK, NUM_SLOW = 4, 2  # threads


class SlowSearch:
    """What a search may return in place of a mask: another search, that is for the threads of slow lexers."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self.find = find


class MaskThreads:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue = FairQueue()
        take = self._queue.take
        quick = Work(take=partial(take, False), run=_run, end=self._end)
        slow = Work(take=partial(take, True), run=_run, end=self._end, prepare=step_back)
        self._pools = {
            False: Pool("mask", NUM_QUICK, self._lock, quick),
            True: Pool("mask-slow", NUM_SLOW, self._lock, slow),
        }
        self._watchdog = Watchdog(self._lock, self._look)

    def submit(self, lexer: Lexer, find: Callable[..., Any], *args: Any) -> Future[Any]:
        """Have it found. The result is None if it takes too long, and from then on for this lexer.

        Raises RuntimeError if no thread can be had.
        """
        wanted = MaskJob(lexer, partial(find, *args))
        with self._lock:
            if not lexer.is_lost:
                self._watchdog.wake()
                self._queue.put(wanted)
                if not (lexer.is_busy or self._pools[lexer.is_slow].call()):
                    self._queue.withdraw(wanted)
                    raise RuntimeError("there is no thread to find masks")
                return wanted.future
        wanted.future.set_result(None)
        return wanted.future

    def _call(self) -> None:
        for is_slow, pool in self._pools.items():
            if self._queue.has(is_slow):
                pool.call()

    def _end(self, wanted: MaskJob, took_s: float) -> None:
        self._queue.end(wanted, took_s)
        if wanted.slowly is not None:
            lexer = Lexer(is_slow=True, had_s=wanted.lexer.had_s)
            self._queue.put(MaskJob(lexer, wanted.slowly, wanted.future))
        if not self._queue.is_empty:  # others may wait for its lexer, which may have become slow
            self._call()

    def _look(self) -> bool:
        lost: list[MaskJob] = []
        with self._lock:
            for pool in self._pools.values():
                for wanted in pool.look():
                    log.warning("what a constraint allows could not be found in time")
                    wanted.lexer.is_lost = True
                    lost += [wanted, *self._queue.drop(wanted.lexer)]
            self._call()
            is_resting = all(pool.is_resting for pool in self._pools.values())
        for wanted in lost:
            _settle(wanted.future, None, None)
        return not is_resting


def _run(wanted: MaskJob) -> None:
    found, failure = None, None
    try:
        with wanted.lexer.in_use:
            found = wanted.find()
    except BaseException as error:  # a panic of llguidance is no Exception
        failure = error
    if isinstance(found, SlowSearch):
        wanted.slowly = found.find
    else:
        _settle(wanted.future, found, failure)


def _settle(future: Future[Any], found: Any, failure: BaseException | None) -> None:
    with contextlib.suppress(InvalidStateError):  # it was given up
        if failure is None:
            future.set_result(found)
        else:
            future.set_exception(failure)
