"""Starting a process apart from the program that starts it, waiting for it off the event loop, and how it ended."""

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from typing import TypeVar

T = TypeVar("T")

_starting = threading.Lock()


def start_apart(process: BaseProcess, argument: object) -> None:
    """Start the process without the program's own main file. `spawn` would run that file again in the new process,
    and a script that begins with `LLM(...)` would start another engine there. `argument`: of the process."""
    if type(argument).__module__ == "__main__":
        with _without_interrupts():
            return process.start()  # it is defined in the main file, so the process needs that file
    with _starting, _without_interrupts():
        main = vars(sys.modules["__main__"])
        hidden: dict[str, object] = {
            name: main.pop(name) for name in ("__file__", "__spec__") if name in main
        }
        main["__spec__"] = None
        try:
            process.start()
        finally:
            main.pop("__spec__")
            main.update(hidden)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """A process that is started meanwhile takes no SIGINT before `ignore_signals`. A terminal sends it to all of its
    processes, and one that is still importing would end with a traceback."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it is started with the first process, and unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_signals() -> None:
    """In a process that `start_apart` started: its parent takes those of the process group, and ends it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


async def beside(work: Callable[[], T]) -> T:
    """Run `work` on a thread of its own and wait for its result.

    Not asyncio.to_thread: its threads are waited for at exit, and a download can take an hour; and at interpreter exit
    they are gone, while an engine may still have to be closed.
    """
    import asyncio  # here: a process that is started ahead must not wait for it, and a worker has none

    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def set_outcome(set_it: Callable[[], None]) -> None:
        if not done.done():
            set_it()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            outcome = partial(done.set_exception, error)
        else:
            outcome = partial(done.set_result, result)
        with contextlib.suppress(RuntimeError):  # the loop has ended: no task waits any more
            loop.call_soon_threadsafe(set_outcome, outcome)

    threading.Thread(target=run, daemon=True).start()
    return await done


def reap(process: BaseProcess) -> None:
    """Wait for a process whose socket is closed; kill it after a second."""
    if process.pid is None:
        return
    process.join(1.0)
    if process.is_alive():
        process.kill()
        process.join()


def ending(exit_code: int | None) -> str:
    """How a process ended, in words."""
    if exit_code is not None and exit_code < 0:
        return f"was ended by {signal.Signals(-exit_code).name}"
    return f"ended with exit code {exit_code}"
