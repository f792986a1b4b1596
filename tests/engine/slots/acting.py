"""Actions on the slots of a bench, without threads: a test says when files are read and written."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from queue import Empty
from typing import Any

from segue.engine.seam import SlotBytes
from segue.engine.slots.actions import SlotActions
from segue.engine.slots.folder import SlotFolder
from segue.runners.fake import FakeRunner
from segue.runners.fake_slots import FakeSlotBytes
from segue.types import CompletionRequest, Sampling, SlotAction, SlotResult, SlotVerb
from tests.engine.harness import Bench, ask

Told = list[SlotResult | Exception]

PROMPT = "it was a dark and stormy night, and the rain fell"
GREEDY = Sampling(temperature=0.0, seed=1)


def bench(can_trim: bool = True, **limits: Any) -> Bench:
    return Bench(can_trim=can_trim, can_give_back=0 if can_trim else 8, **limits)


def labelled(prompt: str = PROMPT, slot: int | None = 0, **fields: object) -> CompletionRequest:
    fields = {"max_tokens": 8, "sampling": GREEDY, "client_slot": slot} | fields
    return ask(prompt, **fields)  # type: ignore[arg-type]


class Acting:
    def __init__(
        self,
        bench: Bench,
        folder: Path | None,
        access: SlotBytes | None = None,
        digests: dict[str, str] | None = None,
        most_bytes: int | None = None,
    ) -> None:
        if access is None and isinstance(bench.runner, FakeRunner):
            access = FakeSlotBytes(bench.runner.slots, bench.runner.add_cells)
        self.bench = bench
        self.turns: deque[Callable[[], None]] = deque()
        self.actions = SlotActions(
            None if folder is None else SlotFolder(str(folder), most_bytes),
            bench.scheduler.client_slots,
            access,
            bench.capabilities,
            digests or {},
            self.turns.append,
        )

    def ask(
        self,
        verb: SlotVerb,
        slot: int = 0,
        filename: str = "a.bin",
        tenant: str = "",
        cache_salt: str = "",
    ) -> Told:
        """What is told of it once that is known."""
        told: Told = []
        action = SlotAction(
            verb=verb, slot=slot, filename=filename, tenant=tenant, cache_salt=cache_salt
        )
        self.actions.ask(action, told.append)
        return told

    def turn(self) -> bool:
        """What the step thread does between two steps. Whether there was anything."""
        num_turns = len(self.turns)
        for _ in range(num_turns):
            self.turns.popleft()()
        is_due = self.bench.scheduler.client_slots.is_due
        self.bench.scheduler.client_slots.act_due()
        self.bench.scheduler.check()
        return num_turns > 0 or is_due

    def files(self) -> bool:
        """One piece of work with files. Whether there was any."""
        try:
            work = self.actions._to_files.get_nowait()
        except Empty:
            return False
        work()
        return True

    def run(self) -> None:
        """Until all requests are answered. Files wait for as long as requests need nothing of them."""
        while not self.bench.scheduler.is_idle:
            if not (self.bench.step() or self.turn()):
                assert self.files(), "work left, but nothing to compute"

    def settle(self) -> None:
        while self.turn() or self.files():
            pass

    def done(self, verb: SlotVerb, slot: int = 0, filename: str = "a.bin", **of: str) -> SlotResult:
        """The result of one that nothing delays."""
        told = self.ask(verb, slot, filename, **of)
        self.settle()
        [result] = told
        if isinstance(result, Exception):
            raise result
        return result
