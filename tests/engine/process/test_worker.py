import asyncio
import threading
import time
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.engine.constraints.compiler import Compiler, Grammar
from segue.engine.constraints.threads import priority
from segue.engine.process.connections import Connections, Outbox, Pulses
from segue.engine.process.messages import Cancel, Report, StepEvents, Submit
from segue.engine.process.pulse import Pulse
from segue.engine.process.supervisor import Supervisor
from segue.engine.process.worker import (
    EXIT_FAILED,
    Arrivals,
    BetweenSteps,
    Worker,
    _end_if_it_fails,
)
from segue.engine.request.job import Job
from segue.engine.request.prepare import prepare
from segue.engine.seam import Loaded
from segue.runners.fake import FakeLoader
from segue.types import (
    CompletionRequest,
    Constraint,
    Delta,
    Event,
    Prompted,
    Sampling,
    Truncation,
)
from tests.engine.harness import Bench, ask
from tests.engine.process.asking import fold
from tests.support.hostile_constraints import HARMLESS, REFUSED
from tests.support.waiting import PATIENCE_S

WORD = Constraint(kind="regex", value="[a-z]{5}", param="regex")


class Heard(Outbox):
    def __init__(self) -> None:
        self.reports: SimpleQueue[Report] = SimpleQueue()

    def send(self, report: Report) -> None:
        self.reports.put(report)


class Inside:
    """A worker's inbox and compiler threads in this process, with a compiler that waits for `gate`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.arrived: Arrivals = SimpleQueue()
        self.heard = Heard()
        self.pulses = Pulses(Pulse(time.monotonic), Pulse(time.monotonic))
        self.connections = Connections(self.heard, self.arrived.put, self.pulses)
        self.worker = Worker(
            FakeLoader()(),
            self.connections,
            64,
            self.arrived,
            self.pulses,
            has_priorities=False,
            is_brief=False,
            slot_folder=None,
        )
        self.gate = threading.Event()
        self.started: SimpleQueue[Constraint] = SimpleQueue()
        compile_now = Compiler.compile

        def compile_later(compiler: Compiler, constraint: Constraint) -> Grammar:
            self.started.put(constraint)
            assert self.gate.wait(PATIENCE_S)
            return compile_now(compiler, constraint)

        monkeypatch.setattr(Compiler, "compile", compile_later)
        for serve in self.worker.threads:
            threading.Thread(target=serve, daemon=True).start()

    def submit(self, request: CompletionRequest) -> str:
        self.connections.take(Submit(request), self.heard)
        return request.request_id

    def next_order_of(self, request_id: str) -> bool:
        return self.next_order() == request_id

    def next_order(self) -> str:
        """The id of the next request or cancellation that reaches the step thread."""
        order = self.worker._inbox.get(timeout=PATIENCE_S)
        assert not isinstance(order, BetweenSteps)
        return order.request_id if isinstance(order, Cancel) else order.request.request_id


def test_others_pass_a_request_that_is_being_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = Inside(monkeypatch)
    slow = inside.submit(ask("x", constraint=WORD))
    inside.started.get(timeout=PATIENCE_S)
    quick = inside.submit(ask("y"))
    assert inside.next_order() == quick
    inside.gate.set()
    assert inside.next_order() == slow


def test_a_cancel_wins_over_its_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = Inside(monkeypatch)
    gone = inside.submit(ask("x", constraint=WORD))
    inside.started.get(timeout=PATIENCE_S)
    inside.connections.take(Cancel(gone), inside.heard)
    assert inside.next_order() == gone  # the cancellation
    queued = inside.submit(ask("x", constraint=Constraint(kind="regex", value="later")))
    inside.gate.set()
    assert inside.next_order() == queued
    last = inside.submit(ask("z"))
    assert inside.next_order() == last
    assert inside.heard.reports.empty()


def test_a_known_constraint_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = Inside(monkeypatch)
    inside.gate.set()
    for _ in range(3):
        request_id = inside.submit(ask("x", constraint=WORD))
        assert inside.next_order() == request_id
    assert inside.started.qsize() == 1


def test_an_action_whose_slot_became_idle_is_not_passed_by_further_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Inside(monkeypatch).worker
    slots, acted = worker._client_slots, threading.Event()
    slots.keep()
    job = prepare(ask("x", client_slot=3), worker._loaded.model)
    slots.began(job)
    slots.when_idle(slots.key("", 3), acted.set)
    assert worker._may_go_on()
    slots.ended(job)
    assert not worker._may_go_on()
    assert not acted.is_set()
    slots.act_due()
    assert worker._may_go_on()
    assert acted.is_set()


def test_a_large_prompt_delays_nobody_and_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is prepared on a thread of its own, which does not count as a hang of the worker."""
    gate, begun = threading.Event(), threading.Event()

    def slowly(request: CompletionRequest, *arguments: Any) -> Job:
        if len(request.prompts[0].parts[0]) > 1000:
            begun.set()
            assert gate.wait(PATIENCE_S)
        return prepare(request, *arguments)

    monkeypatch.setattr("segue.engine.process.worker.prepare", slowly)
    inside = Inside(monkeypatch)
    large = inside.submit(ask("x" * 100_000, truncation=Truncation()))
    assert begun.wait(PATIENCE_S)
    assert inside.next_order_of(inside.submit(ask("y")))
    assert inside.pulses.inbox.age_s < PATIENCE_S
    inside.connections.take(Cancel(large), inside.heard)
    assert inside.next_order_of(large), "the cancel"
    gate.set()
    assert inside.next_order_of(inside.submit(ask("z"))), "nothing came of the large one"


@dataclass(frozen=True)
class PatientLoader(FakeLoader):
    """Its process has no threads of low priority, which may be without a processor until they are given up."""

    def __call__(self) -> Loaded:
        priority._FURTHER = 0
        return super().__call__()


def test_hostile_constraints_hurt_only_themselves() -> None:
    """Each is refused or harmless, the process lives, and the streams beside them are as if alone.

    Some of each kind: all of them are compiled in test_grammar_text.py, in a process that also would not live.
    """
    refused_ones, harmless_ones = REFUSED[::3], HARMLESS[::3]
    victims = [ask(f"victim {i}", max_tokens=200, logprobs=1) for i in range(4)]
    victims += [ask(f"victim {i}", max_tokens=100, constraint=WORD) for i in range(4)]

    async def main() -> None:
        supervisor = Supervisor(PatientLoader(), chunk_rows=64)
        await supervisor.start()
        try:
            hostile = [
                ask("x", constraint=c, max_tokens=12) for c in (*refused_ones, *harmless_ones)
            ]
            stories = await asyncio.gather(*(fold(supervisor, r) for r in (*hostile, *victims)))
            stats = await supervisor.stats()
        finally:
            await supervisor.close()
        refused = stories[: len(refused_ones)]
        assert {(s.failed.code, s.failed.param) for s in refused if s.failed} == {
            ("invalid_value", "it")
        }
        assert all(s.failed is not None for s in refused)
        assert all(s.done is not None for s in stories[len(refused_ones) :])
        alone = [Bench().run(request)[0].essence for request in victims]
        assert [story.essence for story in stories[-len(victims) :]] == alone
        assert (stats.running, stats.waiting, stats.restarts) == (0, 0, 0)

    asyncio.run(main())


@given(sizes=st.lists(st.booleans(), max_size=30))
@settings(max_examples=20, deadline=None)
def test_events_are_sent_in_order_whether_they_are_small_or_large(sizes: list[bool]) -> None:
    """Small ones by the step thread itself, large ones by another thread."""
    arrived: Arrivals = SimpleQueue()
    pulses = Pulses(Pulse(time.monotonic), Pulse(time.monotonic))
    heard = Heard()
    connections = Connections(heard, arrived.put, pulses)
    worker = Worker(
        FakeLoader()(),
        connections,
        64,
        arrived,
        pulses,
        has_priorities=False,
        is_brief=False,
        slot_folder=None,
    )
    threading.Thread(target=worker.serve_outbox, daemon=True).start()
    connections.take(Submit(request := ask("x")), heard)
    sent: list[Event] = [
        Delta(0, f"{number}", ()) if is_small else Prompted(number, (1, 2), 0)
        for number, is_small in enumerate(sizes)
    ]
    for event in sent:
        worker._report({request.request_id: [event]})
    told: list[Event] = []
    while len(told) < len(sent):
        step = heard.reports.get(timeout=PATIENCE_S)
        assert isinstance(step, StepEvents)
        told += step.events[request.request_id]
    assert told == sent


def test_requests_come_and_go_while_steps_are_begun_ahead() -> None:
    """In a real worker: one long stream; beside it others of all kinds, and some that are cancelled in the middle."""
    fields: list[dict[str, Any]] = [
        {"n": 3},
        {"logprobs": 2},
        {"constraint": WORD},
        {"stop": ("e",)},
        {"best_of": 3},
    ]
    asked = [ask(f"{i} and", max_tokens=30, **each) for i, each in enumerate(fields * 3)]
    alone = [Bench().run(request)[0].essence for request in asked]

    async def cut_short(supervisor: Supervisor, number: int) -> None:
        events = supervisor.submit(ask(f"gone {number}", max_tokens=None))
        num_seen = 0
        async for _ in events:
            num_seen += 1
            if num_seen > number:
                break
        await events.aclose()

    async def main() -> None:
        supervisor = Supervisor(FakeLoader(), chunk_rows=64, step_timeout_s=60)
        await supervisor.start()
        sampling = Sampling(seed=1, ignore_eos=True)
        stream = supervisor.submit(ask("long", max_tokens=4000, sampling=sampling))
        assert isinstance(await anext(stream), Prompted)
        cuts = [cut_short(supervisor, number) for number in range(0, 60, 6)]
        answers = asyncio.gather(*(fold(supervisor, request) for request in asked))
        await asyncio.gather(*cuts)
        assert [story.essence for story in await answers] == alone
        num_tokens = sum([len(e.tokens) async for e in stream if isinstance(e, Delta)])
        assert num_tokens == 4000
        assert supervisor.is_idle
        assert (await supervisor.stats()).restarts == 0
        await supervisor.close()

    asyncio.run(main())


class Panic(BaseException):
    """As llguidance raises it."""


@pytest.mark.parametrize("kind", [ValueError, Panic])
def test_a_process_ends_whose_thread_has_failed(
    kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    monkeypatch.setattr("segue.engine.process.worker.os._exit", ended.append)

    def body() -> None:
        raise kind

    _end_if_it_fails(body)
    assert ended == [EXIT_FAILED]
