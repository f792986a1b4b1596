"""The threads of a step. Between steps they spin and yield in compiled code for a short time, then they sleep.

On Linux they sleep in compiled code; on other systems they return to Python to sleep.

A step may use fewer threads than the team has: the others are not woken. Models whose steps never run at the same time
share a team: idle threads of a second one would take processors away.

The caller's thread is the first of the team. A step that is begun runs without it: the caller joins when there is
nothing else to do.
"""

import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.step import board as on

Board = NDArray[np.int64]
MOST_OPEN = 2  # what a mailbox holds


class Kernels(NamedTuple):
    run_step: Callable[..., int]
    serve_steps: Callable[..., int]
    post_step: Callable[..., int]
    await_left: Callable[..., int]
    tell_word: Callable[..., int]


class Team:
    def __init__(self, size: int, kernels: Kernels):
        self._kernels = kernels
        self.words: NDArray[np.int64] = zeros(on.NUM_TEAM_WORDS, np.int64)
        self._address = address(self.words)
        self._begun = self._ended = 0  # numbers of the last steps
        nothing: Board = zeros(on.NUM_WORDS, np.int64)
        self._boards = [nothing, nothing]  # of the last two steps, by parity
        self._wake = [threading.Lock() for _ in range(size)]
        for lock in self._wake:
            lock.acquire()
        self._threads = [self._started(i) for i in range(1, size)]

    @property
    def size(self) -> int:
        return len(self._wake)

    @property
    def num_open(self) -> int:
        """How many steps were begun and have not been ended, of all models that share the team."""
        return self._begun - self._ended

    def step(self, board: Board, threads: int) -> None:
        """Run the program on a board with this many threads."""
        if self.num_open:
            raise RuntimeError("a step is open: it must end first")
        self.begin(board, threads)
        self.end()

    def begin(self, board: Board, threads: int) -> None:
        """Begin the step on a board: it runs when the one before it has ended. At most two can be open.

        Nobody may write to the board until all threads have left it.
        """
        if self.num_open == MOST_OPEN:
            raise RuntimeError("two steps are open: one of them must end first")
        number = self._begun + 1
        before = self._boards[number & 1]
        self.await_left(board)
        if before[on.NUMBER] == number - 2:  # a mailbox holds two steps
            self.await_left(before)
        self._begun, self._boards[number & 1] = number, board
        board[on.TEAM], board[on.NUMBER] = self._address, number
        board[on.THREADS], board[on.POSTED_TO], board[on.LEFT] = threads, threads - 1, 0
        self._post(threads, address(board))

    def end(self) -> None:
        """Take part in the step that was begun first until it has ended."""
        if not self.num_open:
            raise RuntimeError("no step is open")
        self._ended += 1
        self._kernels.run_step(0, address(self._boards[self._ended & 1]))

    def await_left(self, board: Board) -> None:
        """Wait until no thread looks at the board any more. Its last step has ended, but a thread may be late."""
        if board[on.LEFT] < board[on.POSTED_TO]:
            self._kernels.await_left(address(board))

    def tell(self, place: int, value: int) -> None:
        """Write a word that threads of a step may wait for. From any thread, at any time."""
        self._kernels.tell_word(place, value)

    def close(self) -> None:
        """End the threads. No step may be open."""
        for board in self._boards:
            self.await_left(board)
        self._post(self.size, 0)
        for thread in self._threads:
            thread.join()
        self._threads = []

    def _started(self, i: int) -> threading.Thread:
        thread = threading.Thread(target=self._work, args=(i,), daemon=True, name=f"step-{i}")
        thread.start()
        return thread

    def _post(self, end: int, board: int) -> None:
        if end > 1 and self._kernels.post_step(self._address, 1, end, board):
            for i in range(1, end):
                if self.words[on.MAILBOXES + on.MAILBOX_WORDS * i + on.TO_WAKE]:
                    self._wake[i].release()

    def _work(self, i: int) -> None:
        seen = 0
        while (seen := self._kernels.serve_steps(i, self._address, seen)) >= 0:
            self._wake[i].acquire()
