"""The threads of a step. Between steps they spin and yield in compiled code for a short time, then they sleep.

On Linux they sleep in compiled code; on other systems they return to Python to sleep.

A step may use fewer threads than the team has: the others are not woken. Models whose steps never run at the same time
share a team: idle threads of a second one would take processors away.

In `step`, the caller's thread is the first of the team. A step that is begun runs without the caller: another thread is
the first then. It is started with the first such step.
"""

import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.step import board as on

MOST_OPEN = 2  # what a mailbox holds


class Kernels(NamedTuple):
    run_step: Callable[..., int]
    serve_steps: Callable[..., int]
    post_step: Callable[..., int]
    await_step: Callable[..., int]


class Team:
    def __init__(self, size: int, kernels: Kernels):
        self._kernels = kernels
        self.words: NDArray[np.int64] = zeros(on.NUM_TEAM_WORDS, np.int64)
        self._address = address(self.words)
        self._begun = self._ended = 0  # numbers of the last steps
        self._wake = [threading.Lock() for _ in range(size)]
        for lock in self._wake:
            lock.acquire()
        self._threads = [self._started(i) for i in range(1, size)]
        self._first: threading.Thread | None = None

    @property
    def size(self) -> int:
        return len(self._wake)

    @property
    def num_open(self) -> int:
        """How many steps were begun and have not been ended, of all models that share the team."""
        return self._begun - self._ended

    def step(self, board: NDArray[np.int64], threads: int) -> None:
        """Run the program on a board with this many threads."""
        if self.num_open:
            raise RuntimeError("a step is open: it must end first")
        place = self._write(board, threads)
        self._post(1, threads, place)
        self._kernels.run_step(0, place)
        self._ended = self._begun

    def begin(self, board: NDArray[np.int64], threads: int) -> None:
        """Begin the step on a board: it runs when the one before it has ended. At most two can be open.

        Until it has ended, nobody may write to the board.
        """
        if self.num_open == MOST_OPEN:
            raise RuntimeError("two steps are open: one of them must end first")
        if self._first is None:
            self._first = self._started(0)
        self._post(0, threads, self._write(board, threads))

    def end(self) -> None:
        """Wait for the step that was begun first."""
        if not self.num_open:
            raise RuntimeError("no step is open")
        self._kernels.await_step(self._address, self._ended + 1)
        self._ended += 1

    def close(self) -> None:
        """End the threads. No step may be open."""
        self._post(1, self.size, 0)
        if self._first is not None:
            self._post(0, 1, 0)
            self._threads.append(self._first)
        for thread in self._threads:
            thread.join()
        self._threads, self._first = [], None

    def _started(self, i: int) -> threading.Thread:
        thread = threading.Thread(target=self._work, args=(i,), daemon=True, name=f"step-{i}")
        thread.start()
        return thread

    def _write(self, board: NDArray[np.int64], threads: int) -> int:
        self._begun += 1
        board[on.TEAM], board[on.NUMBER] = self._address, self._begun
        board[on.THREADS], board[on.BARRIER_BASE] = threads, board[on.BARRIER]
        return address(board)

    def _post(self, first: int, end: int, board: int) -> None:
        if first < end and self._kernels.post_step(self._address, first, end, board):
            for i in range(first, end):
                if self.words[on.MAILBOXES + on.MAILBOX_WORDS * i + on.TO_WAKE]:
                    self._wake[i].release()

    def _work(self, i: int) -> None:
        seen = 0
        while (seen := self._kernels.serve_steps(i, self._address, seen)) >= 0:
            self._wake[i].acquire()
