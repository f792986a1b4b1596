"""Drives a scheduler to the end without threads, and folds its events."""

import functools
import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from segue.engine.constraints.compiler import Compiler
from segue.engine.request.job import Job
from segue.engine.request.prepare import prepare
from segue.engine.scheduling import steps
from segue.engine.scheduling.scheduler import Scheduler
from segue.engine.seam import Capabilities, Model, Runner, Vocab
from segue.runners.fake import FakeRunner, FakeVocab, default_capabilities
from segue.types import (
    CompletionRequest,
    Delta,
    Done,
    Event,
    Failed,
    Finished,
    Prompt,
    Prompted,
    Sampling,
    TokenScore,
)


class RequestEvents:
    """The events of one request, folded."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.texts: dict[int, str] = defaultdict(str)
        self.tokens: dict[int, list[int]] = defaultdict(list)
        self.scores: dict[int, list[TokenScore]] = defaultdict(list)
        self.finished: dict[int, Finished] = {}
        self.prompted: dict[int, Prompted] = {}
        self.done: Done | None = None
        self.failed: Failed | None = None

    def push(self, event: Event) -> None:
        assert self.done is None
        assert self.failed is None, "nothing may follow the last event"
        self.events.append(event)
        match event:
            case Prompted():
                self.prompted[event.prompt] = event
            case Delta():
                assert event.choice not in self.finished
                self.texts[event.choice] += event.text
                self.tokens[event.choice] += event.tokens
                self.scores[event.choice] += event.scores or ()
            case Finished():
                self.finished[event.choice] = event
            case Done():
                self.done = event
            case Failed():
                self.failed = event

    @property
    def essence(self) -> object:
        """All that must not depend on load, chunking or caching."""
        ends = {c: (f.reason, f.cause, f.stop, f.num_tokens) for c, f in self.finished.items()}
        usage = (
            (self.done.usage.prompt_tokens, self.done.usage.completion_tokens)
            if self.done
            else None
        )
        return dict(self.texts), dict(self.tokens), dict(self.scores), ends, usage


class Bench:
    def __init__(
        self,
        runner: Runner | None = None,
        vocab: Vocab | None = None,
        chunk_rows: int = 64,
        can_trim: bool = True,
        can_give_back: int = 0,
        has_priorities: bool = False,
        **limits: int,
    ) -> None:
        self.runner = runner or FakeRunner(
            replace(
                default_capabilities(**limits),
                can_trim=can_trim,
                can_give_back=can_give_back,
                has_priorities=has_priorities,
            )
        )
        self.vocab = vocab or FakeVocab()
        ticks = itertools.count(1)  # no time is 0, as on any clock: 0 reads as none
        self.scheduler = Scheduler(self.runner, self.vocab, chunk_rows, lambda: float(next(ticks)))
        self.stories: dict[str, RequestEvents] = defaultdict(RequestEvents)
        self.jobs: list[Job] = []
        self.num_steps = 0
        self.may_go_on: Callable[[], bool] = lambda: True
        self.step_clock: Callable[[], float] = lambda: 0.0

    @functools.cached_property
    def compiler(self) -> Compiler:
        """Made where a constraint is asked for: most benches never do, and they are made by the thousand."""
        return Compiler(self.vocab, self.capabilities.vocab_size)

    @property
    def capabilities(self) -> Capabilities:
        return self.runner.capabilities

    def submit(self, request: CompletionRequest) -> None:
        constraint = request.constraint
        grammar = None if constraint is None else self.compiler.compile(constraint)
        job = prepare(request, Model(self.vocab, self.capabilities), grammar)
        self.jobs.append(job)
        self.scheduler.add(job)

    def step(self) -> bool:
        """One step, with those that can be told ahead of it; False: there was nothing to compute."""
        began_s = self.step_clock()
        batch = self.scheduler.next_batch()
        if batch is None:
            return False
        for events in steps.run(
            self.scheduler, self.runner, batch, self.may_go_on, self.step_clock, began_s
        ):
            self.num_steps += 1
            for request_id, told in events.items():
                for event in told:
                    self.stories[request_id].push(event)
            self.scheduler.check()
        return True

    def run(self, *requests: CompletionRequest) -> list[RequestEvents]:
        for request in requests:
            self.submit(request)
        while self.step() or self.scheduler.awaits_mask:
            pass
        assert self.scheduler.is_idle, "work left, but nothing to compute"
        return [self.stories[request.request_id] for request in requests]


def ticking(bench: Bench) -> Bench:
    """The same, whose steps all take as long, whatever their rows: then drafts pay."""
    ticks = itertools.count()
    bench.step_clock = lambda: next(ticks) * 1e-6
    return bench


_ids = itertools.count()


def ask(
    *prompts: str | list[int], sampling: Sampling | None = None, **fields: object
) -> CompletionRequest:
    parts = tuple(Prompt((p if isinstance(p, str) else tuple(p),)) for p in prompts)
    return CompletionRequest(
        request_id=f"r{next(_ids)}",
        model="fake",
        prompts=parts,
        sampling=sampling or Sampling(seed=7),
        **fields,  # type: ignore[arg-type]
    )
