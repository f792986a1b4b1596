"""The first model's worker, started before anything is known of its model."""

import contextlib
from collections.abc import Iterator

from segue.config import Settings
from segue.engine.process.new_worker import NewWorker

# What loading a model on the CPU runner imports: most models are computed there.
_OF_CPU_RUNNER = ("segue.runners.cpu.loader", "segue.runners.cpu.runner")


@contextlib.contextmanager
def worker_ahead(settings: Settings) -> Iterator[NewWorker | None]:
    """A worker that imports its modules while this process imports its own. None where workers are not made by this
    process alone: vLLM makes its own, and several server processes need sockets that are made later.
    """
    if settings.engine == "vllm" or settings.server_processes > 1:
        yield None
        return
    worker = NewWorker(modules=_OF_CPU_RUNNER if settings.runner in ("auto", "cpu") else ())
    try:
        worker.start()
        yield worker
    finally:
        worker.close()
