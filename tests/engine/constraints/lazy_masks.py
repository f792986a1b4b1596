"""Masks that are found when a test says so, as those of a slow constraint are: no thread and no clock takes part."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from segue.engine.constraints import guide
from segue.engine.constraints.threads.fair_queue import Lexer
from segue.engine.constraints.threads.mask_threads import SlowSearch


class _Lazy(Future[Any]):
    """Whoever waits without a limit has it found at once; with one, the time is always too short."""

    def __init__(self, find: Callable[[], Any], masks: "LazyMasks") -> None:
        super().__init__()
        self._find, self._masks = find, masks

    def find(self) -> None:
        if not self.done():
            try:
                found = self._find()
                self.set_result(found.find() if isinstance(found, SlowSearch) else found)
            except BaseException as error:  # as a thread of a pool does
                self.set_exception(error)

    def result(self, timeout: float | None = None) -> Any:
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        if timeout is None:
            self._masks.num_awaited += not self.done()
            self.find()
        elif not self.done():
            raise TimeoutError


class LazyMasks:
    """Takes the place of the threads that find masks."""

    def __init__(self) -> None:
        self._asked: list[_Lazy] = []
        self.num_found = 0
        self.num_awaited = 0  # how often somebody waited for one without a limit

    def submit(self, lexer: Lexer, find: Callable[..., Any], *args: Any) -> Future[Any]:
        future = _Lazy(lambda: find(*args), self)
        self._asked.append(future)
        return future

    def find_all(self) -> None:
        while self._asked:
            self._asked.pop(0).find()
            self.num_found += 1


def use(monkeypatch: pytest.MonkeyPatch) -> LazyMasks:
    masks = LazyMasks()
    monkeypatch.setattr(guide, "_THREADS", masks)
    return masks
