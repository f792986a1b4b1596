"""A worker's process before it has a model: it imports its modules, and waits to be told what to load."""

import contextlib
import importlib
import multiprocessing
import socket
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, NamedTuple

from segue import imports
from segue.cpus import interrupt_as_usual
from segue.engine.process.spawning import ignore_signals, start_apart

if TYPE_CHECKING:  # numpy comes with it, for which a start ahead must not wait
    from segue.engine.seam import Loader
    from segue.engine.slots.folder import SlotFolder


class Task(NamedTuple):
    """What a worker is told: an argument of its `main`."""

    loader: "Loader"
    chunk_rows: int
    log_level: int
    logs_json: bool
    num_restarts: int
    slot_folder: "SlotFolder | None"  # where slots are saved
    has_priorities: bool  # whether requests may have one


class NewWorker:
    """The process and this side of its socket. Whoever has it tells it once, or closes it."""

    def __init__(
        self,
        listener: socket.socket | None = None,
        modules: tuple[str, ...] = (),
        *,
        is_brief: bool = False,
    ) -> None:
        """`listener`: where other server processes connect. `modules`: to be imported besides a worker's own.
        `is_brief`: it runs for one command, so what only some requests need is made when one does."""
        self.sock, self._theirs = socket.socketpair()
        self._told, self._tell = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.get_context("spawn").Process(
            target=_run,
            args=(self._theirs, listener, self._told, modules, is_brief),
            name="segue-worker",
            daemon=True,
        )

    def start(self, loader: object = None) -> None:
        """`loader`: what it will be told to load, if that is known."""
        try:
            start_apart(self.process, loader)
        finally:
            self._theirs.close()
            self._told.close()

    def begin(self, task: Task) -> None:
        """Start it unless it was, and tell it what to do."""
        try:
            if self.process.pid is None:
                self.start(task.loader)
            # If it has died, the end of its socket says so.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._tell.send(task)
        finally:
            self._tell.close()

    def close(self) -> None:
        """End a process that was told nothing. One that was has ended when its supervisor did."""
        for end in (self._tell, self._told, self._theirs, self.sock):
            end.close()
        if self.process.pid is not None:
            self.process.kill()
            self.process.join()


def _run(
    sock: socket.socket,
    listener: socket.socket | None,
    told: "Connection[None, Task]",
    modules: tuple[str, ...],
    is_brief: bool,
) -> None:
    """The new process's first function. Its parent never imports what only a worker needs: kernels, constraints."""
    ignore_signals()
    with imports.many():
        from segue.engine.process.worker import main

        for name in modules:
            importlib.import_module(name)
    interrupt_as_usual()  # what the server's thread set is inherited
    try:
        task = told.recv()
    except (EOFError, OSError):
        return  # it is not needed
    told.close()
    main(sock, listener, task, is_brief=is_brief)
