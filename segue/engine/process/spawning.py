"""Starting a process apart from the program that starts it, and waiting for it off the event loop."""

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable
from multiprocessing.process import BaseProcess

from segue.engine.seam import Loader

_starting = threading.Lock()


def start_apart(process: BaseProcess, loader: Loader) -> None:
    """Without the program's own main file, which spawn would run again in the new process: the worker needs nothing
    of it, and a script that begins with `LLM(...)` would start another engine there."""
    if type(loader).__module__ == "__main__":
        return process.start()  # it cannot be found without
    with _starting:
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


async def beside(work: Callable[[], None]) -> None:
    """Not asyncio.to_thread: its threads are gone when a program that did not close its engine ends."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def tell(wrong: BaseException | None) -> None:
        if done.done():
            return
        if wrong is None:
            done.set_result(None)
        else:
            done.set_exception(wrong)

    def run() -> None:
        wrong: BaseException | None = None
        try:
            work()
        except BaseException as error:
            wrong = error
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody asks any more
            loop.call_soon_threadsafe(tell, wrong)

    threading.Thread(target=run, daemon=True).start()
    await done
