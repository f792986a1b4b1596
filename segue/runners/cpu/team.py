"""The threads of a step. Between steps they spin and yield in compiled code for a short time, then they sleep.

On Linux they sleep in compiled code; on other systems they return to Python to sleep.

The caller's thread is the first of the team. A step may use fewer threads than the team has: the others are not woken.
Models whose steps never run at the same time share a team: idle threads of a second one would take processors away.
"""

import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from segue.runners.cpu.step import board as on


class Team:
    def __init__(
        self,
        size: int,
        board: NDArray[np.int64],
        address: int,
        run: Callable[..., int],
        serve: Callable[..., int],
        post: Callable[..., int],
    ):
        """`board` has the mailboxes. `run`, `serve` and `post` are the kernels run_step, serve_steps and post_step."""
        self._board, self._address = board, address
        self._run, self._serve, self._send = run, serve, post
        self._number = 0
        self._wake = [threading.Lock() for _ in range(size)]
        for lock in self._wake:
            lock.acquire()
        self._threads = [
            threading.Thread(target=self._work, args=(i,), daemon=True, name=f"step-{i}")
            for i in range(1, size)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def size(self) -> int:
        return len(self._wake)

    def step(self, board: NDArray[np.int64], address: int, threads: int) -> None:
        """Run the program on a board with this many threads."""
        board[on.THREADS] = threads
        board[on.BARRIER_BASE] = board[on.BARRIER]
        self._board[on.STEP_BOARD] = address
        self._number += 1
        self._post(threads, self._number)
        self._run(0, address)

    def close(self) -> None:
        """End the threads. No step may be running."""
        self._post(self.size, -1)
        for thread in self._threads:
            thread.join()
        self._threads = []

    def _post(self, threads: int, number: int) -> None:
        if threads > 1 and self._send(self._address, threads, number):
            for i in range(1, threads):
                if self._board[on.MAILBOXES + on.MAILBOX_WORDS * i + on.TO_WAKE]:
                    self._wake[i].release()

    def _work(self, i: int) -> None:
        seen = 0
        while (seen := self._serve(i, self._address, seen)) >= 0:
            self._wake[i].acquire()
