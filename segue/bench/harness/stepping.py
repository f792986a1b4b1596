"""An engine without processes: requests run to their end in this thread, and their cost is counted."""

import time

from segue.config import user_cache_dir
from segue.engine.request.prepare import prepare
from segue.engine.scheduling.scheduler import Scheduler
from segue.engine.seam import Loader, Model
from segue.runners.cpu.loader import CpuLoader
from segue.runners.llama.runner import LlamaLoader
from segue.types import CompletionRequest, Event

CHUNK = 256


class Stepper:
    def __init__(self, loader: Loader) -> None:
        self.runner, self.vocab, self.info, *_ = loader()
        self.scheduler = Scheduler(self.runner, self.vocab, CHUNK, time.perf_counter)
        self.num_steps = 0
        self.num_rows = 0
        self.num_prompt_rows = 0

    def submit(self, request: CompletionRequest) -> None:
        self.scheduler.add(prepare(request, Model(self.vocab, self.runner.capabilities)))

    def step(self) -> list[Event] | None:
        """The events of one step; None if there is nothing to do."""
        began_s = time.perf_counter()
        batch = self.scheduler.next_batch()
        if batch is None:
            return None
        self.num_steps += 1
        self.num_rows += batch.num_rows
        self.num_prompt_rows += batch.num_prompt_rows
        new_events = self.scheduler.commit(batch, self.runner.decode(batch.spans))
        self.scheduler.learn(batch, time.perf_counter() - began_s)
        return [event for told in new_events.values() for event in told]

    def run(self, request: CompletionRequest) -> list[Event]:
        self.submit(request)
        events: list[Event] = []
        while (new_events := self.step()) is not None:
            events += new_events
        return events


def loader_of(runner: str, path: str) -> Loader:
    rows = CHUNK + 64
    if runner == "llama":
        return LlamaLoader(path, "bench", max_rows=rows)
    return CpuLoader(path, "bench", max_rows=rows, cache_dir=str(user_cache_dir()))
