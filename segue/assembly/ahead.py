"""The first model's worker, started before anything is known of its model."""

import contextlib
from collections.abc import Iterator

from segue.config import Settings
from segue.engine.process.new_worker import NewWorker
from segue.processes.worker_sockets import WorkerSockets

# What loading a model on the CPU runner imports: most models are computed there.
_OF_CPU_RUNNER = ("segue.runners.cpu.loader", "segue.runners.cpu.runner")


def start_ahead(
    settings: Settings, sockets: WorkerSockets | None = None, *, is_brief: bool = False
) -> NewWorker | None:
    """A worker that imports its modules while this process imports its own. None with vLLM, which makes its own.

    `sockets`: where other server processes reach it. `is_brief`: see NewWorker.
    """
    if settings.engine == "vllm":
        return None
    modules = _OF_CPU_RUNNER if settings.runner in ("auto", "cpu") else ()
    listener = None if sockets is None else sockets.first
    worker = NewWorker(listener, modules, is_brief=is_brief)
    try:
        worker.start()
    except BaseException:
        worker.close()
        raise
    return worker


@contextlib.contextmanager
def worker_ahead(
    settings: Settings | None, sockets: WorkerSockets | None = None, *, is_brief: bool = False
) -> Iterator[NewWorker | None]:
    """The same, which has ended afterwards. `settings`: None if no model runs here."""
    worker = None if settings is None else start_ahead(settings, sockets, is_brief=is_brief)
    try:
        yield worker
    finally:
        if worker is not None:
            worker.close()


def worker_sockets(settings: Settings) -> contextlib.AbstractContextManager[WorkerSockets | None]:
    """None where one process serves."""
    return contextlib.nullcontext() if settings.server_processes == 1 else WorkerSockets()
