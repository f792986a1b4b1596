"""The model's own process: an inbox thread, threads that prepare requests, and a step thread that owns the runner.

The process ends when its parent closes the socket; other server processes may come and go (connections.py). If a step
raises, the process ends too, because the state of the KV is unknown then; the supervisor fails the open requests and
starts a new worker.
"""

import contextlib
import gc
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from queue import Empty, Queue, SimpleQueue

from segue.engine.constraints.compiler import Compiler, Grammar
from segue.engine.constraints.threads.compile_threads import CompileJob, CompileThreads
from segue.engine.constraints.threads.priority import step_back
from segue.engine.process import messages
from segue.engine.process.connections import Arrived, Connections, Outbox, PendingCall, Pulses
from segue.engine.process.new_worker import Task
from segue.engine.process.preparation import (
    NUM_LARGE,
    NUM_SMALL,
    PreparationQueue,
    call_size,
    request_size,
)
from segue.engine.process.pulse import Pulse
from segue.engine.process.stats_report import StatsReport
from segue.engine.request.job import Job
from segue.engine.request.prepare import prepare
from segue.engine.scheduling import steps
from segue.engine.scheduling.commit import StepEvents
from segue.engine.scheduling.drafts.model import DraftModel
from segue.engine.scheduling.drafts.mtp import MtpProposer
from segue.engine.scheduling.drafts.proposer import Proposer
from segue.engine.scheduling.scheduler import Scheduler
from segue.engine.seam import Loaded, failed_of
from segue.engine.slots.actions import SlotActions
from segue.engine.slots.folder import SlotFolder
from segue.engine.tokens import check_ids
from segue.errors import Incompatible, ModelUnavailable, SegueError, shortage
from segue.logs import set_up
from segue.types import CompletionRequest, Delta, Failed, Prompted

log = logging.getLogger("segue.worker")

EXIT_FAILED = 70
_MOST_UNSENT = 64  # steps whose events wait to be sent
_SWITCH_S = 0.001  # so that the step thread gets the interpreter lock back soon
_MASK_POLL_S = 0.002  # how often to check whether the mask of a slow constraint is ready


@dataclass(frozen=True)
class Compiled:
    """A request whose constraint has been compiled, or why it could not be."""

    message: messages.Submit
    outcome: Grammar | Exception


@dataclass(frozen=True)
class BetweenSteps:
    """Something to do while no step is open."""

    act: Callable[[], None]


Arrivals = SimpleQueue[Arrived | Compiled]


def main(
    sock: socket.socket,
    listener: socket.socket | None,
    task: Task,
    *,
    is_brief: bool,
) -> None:
    """The entry point of the process. `listener`: where server processes besides the parent connect. `is_brief`: it
    runs for one command."""
    set_up(task.log_level, as_json=task.logs_json)
    sys.setswitchinterval(_SWITCH_S)
    arrived: Arrivals = SimpleQueue()
    parent = Outbox(sock)
    pulses = Pulses(Pulse(time.monotonic), Pulse(time.monotonic))
    connections = Connections(parent, arrived.put, pulses)
    # Reads from the start, so that this process ends if its parent dies while the model loads.
    threading.Thread(target=connections.serve_parent, args=(sock,), daemon=True).start()
    try:
        loaded = task.loader()
        worker = Worker(
            loaded,
            connections,
            task.chunk_rows,
            arrived,
            pulses,
            has_priorities=task.has_priorities,
            is_brief=is_brief,
            slot_folder=task.slot_folder,
        )
        ready = messages.Ready(loaded.info, task.num_restarts)
        threads = worker.threads
        if listener is not None:
            threads.append(partial(connections.serve_listener, listener, ready))
        for serve in threads:
            threading.Thread(target=_end_if_it_fails, args=(serve,), daemon=True).start()
    except Exception as error:
        parent.send(_load_failed(error))
        return
    gc.collect()
    gc.freeze()  # the model's objects live on; garbage collection then visits objects of requests only
    parent.send(ready)
    _end_if_it_fails(worker.serve_steps)


def _load_failed(error: Exception) -> messages.LoadFailed:
    if isinstance(error, SegueError):
        return messages.LoadFailed(error.code, error.message)
    if short := shortage(error):
        return messages.LoadFailed(Incompatible.code, short)
    log.error("loading the model failed", exc_info=error)
    return messages.LoadFailed(ModelUnavailable.code, f"{type(error).__name__}: {error}")


def _end_if_it_fails(thread: Callable[[], None]) -> None:
    """Run the body of a thread; if it raises, end the process: with one thread missing, requests would hang.

    Whatever it raises: a panic of the constraints' compiler is no Exception.
    """
    try:
        thread()
    except BaseException:
        log.exception("the worker ends")
        os._exit(EXIT_FAILED)


def _proposer(loaded: Loaded) -> Proposer | None:
    if loaded.draft is not None:
        return DraftModel(loaded.draft)
    return None if loaded.mtp is None else MtpProposer(loaded.mtp)


class Worker:
    def __init__(
        self,
        loaded: Loaded,
        connections: Connections,
        chunk_rows: int,
        arrived: Arrivals,
        pulses: Pulses,
        *,
        has_priorities: bool,
        is_brief: bool,
        slot_folder: SlotFolder | None,
    ) -> None:
        self._loaded = loaded
        limits = replace(loaded.runner.capabilities, has_priorities=has_priorities)
        self._model = loaded.model._replace(capabilities=limits)
        self._pulses = pulses
        self._connections = connections
        self._unsent: Queue[messages.StepEvents] = Queue(_MOST_UNSENT)
        clock = time.perf_counter
        self._scheduler = Scheduler(
            loaded.runner, loaded.vocab, chunk_rows, clock, _proposer(loaded)
        )
        self._stats_report = StatsReport(time.monotonic)
        self._arrived = arrived
        self._inbox: SimpleQueue[Job | messages.Cancel | BetweenSteps] = SimpleQueue()
        self._client_slots = self._scheduler.client_slots
        self._slot_actions = SlotActions(
            slot_folder,
            self._client_slots,
            loaded.slot_bytes,
            loaded.runner.capabilities,
            loaded.info.adapter_digests,
            lambda act: self._inbox.put(BetweenSteps(act)),
        )
        width = loaded.runner.capabilities.vocab_size
        self._compiler = Compiler(loaded.vocab, width, is_brief)
        self._to_compile = CompileThreads(self._compiler)
        self._to_prepare = PreparationQueue()
        self._lists = cache(loaded.lists)
        self._preparing: set[str] = set()  # requests not yet handed to the step thread
        # So that a cancel finds the request either in _preparing or in the scheduler.
        self._handover = threading.Lock()

    @property
    def threads(self) -> list[Callable[[], None]]:
        """The bodies of all threads besides the step thread."""
        return [
            self.serve_inbox,
            self.serve_outbox,
            *self._slot_actions.threads,
            *[self.serve_small] * NUM_SMALL,
            *[self.serve_large] * NUM_LARGE,
        ]

    # --- inbox thread: hands messages on, and does no slow work itself ----------------------------

    def serve_inbox(self) -> None:
        pulse = self._pulses.inbox
        while True:
            pulse.rest()
            message = self._arrived.get()
            pulse.beat()
            match message:
                case messages.Submit():
                    self._admit(message)
                case Compiled():
                    self._take_compiled(message)
                case PendingCall(message=messages.ActOnSlot() as action):
                    self._act_on_slot(message, action)
                case PendingCall():
                    call = partial(self._answer_call, message)
                    self._to_prepare.put("", call_size(message.message), call)
                case messages.Cancel():
                    with self._handover:
                        self._preparing.discard(message.request_id)
                        self._inbox.put(message)

    def _act_on_slot(self, asked: PendingCall, message: messages.ActOnSlot) -> None:
        outbox, call = asked.outbox, message.call
        self._slot_actions.ask(
            message.action, lambda told: outbox.send(messages.slot_answer(call, told))
        )

    def _admit(self, message: messages.Submit) -> None:
        """Queue a request for preparation; one with a constraint that is not compiled yet, for compilation first."""
        constraint = message.request.constraint
        grammar = None if constraint is None else self._compiler.known(constraint)
        self._preparing.add(message.request.request_id)
        if constraint is None or grammar is not None:
            self._submit(message, grammar)
        else:
            self._to_compile.submit(
                CompileJob(
                    constraint,
                    tell=lambda outcome: self._arrived.put(Compiled(message, outcome)),
                    is_wanted=lambda: message.request.request_id in self._preparing,
                )
            )

    def _take_compiled(self, compiled: Compiled) -> None:
        request_id = compiled.message.request.request_id
        if request_id not in self._preparing:
            return  # cancelled meanwhile
        if isinstance(compiled.outcome, Exception):
            self._preparing.discard(request_id)
            self._refuse(request_id, compiled.outcome)
        else:
            self._submit(compiled.message, compiled.outcome)

    def _submit(self, message: messages.Submit, grammar: Grammar | None) -> None:
        work = partial(self._prepare, message.request, grammar)
        self._to_prepare.put(message.request.tenant, request_size(message.request), work)

    def _refuse(self, request_id: str, error: Exception) -> None:
        if isinstance(error, SegueError):
            failed = failed_of(error)
        else:
            log.error("request %s could not be prepared", request_id, exc_info=error)
            failed = Failed("engine_fault", "the request could not be prepared")
        self._connections.tell(messages.StepEvents({request_id: [failed]}))

    # --- preparation threads ----------------------------------------------------------------------

    def serve_small(self) -> None:
        self._to_prepare.serve_small()

    def serve_large(self) -> None:
        step_back()
        self._to_prepare.serve_large()

    def _prepare(self, request: CompletionRequest, grammar: Grammar | None) -> None:
        request_id = request.request_id
        if request_id not in self._preparing:
            return  # cancelled meanwhile
        try:
            job = prepare(request, self._model, grammar)
        except Exception as error:
            self._preparing.discard(request_id)
            self._refuse(request_id, error)
            return
        with self._handover:
            if request_id in self._preparing:
                self._preparing.discard(request_id)
                self._inbox.put(job)

    def _answer_call(self, asked: PendingCall) -> None:
        message = asked.message
        try:
            answer = self._answer(message)
        except Exception as error:
            answer = messages.failed_call(message.call, error)
        asked.outbox.send(answer)

    def _answer(self, message: messages.Call) -> messages.Answer:
        vocab = self._loaded.vocab
        match message:
            case messages.Tokenize(call, text, add_special, parse_special):
                tokens = vocab.tokenize(text, add_special, parse_special)
                return messages.Answer(call, tokens=tokens)
            case messages.GetPieces(call, tokens):
                check_ids(tokens, vocab.size, "tokens")
                return messages.Answer(call, pieces=[vocab.piece(token) for token in tokens])
            case messages.GetLists(call):
                return messages.Answer(call, lists=self._lists())
            case messages.ActOnSlot():
                raise RuntimeError("the inbox thread hands it to SlotActions")

    # --- outbox thread: encodes and sends large messages while the next step runs ------------------

    def serve_outbox(self) -> None:
        while True:
            self._connections.tell(self._unsent.get())
            self._unsent.task_done()

    # --- step thread: owns the runner -------------------------------------------------------------

    def serve_steps(self) -> None:
        scheduler, runner, pulse = self._scheduler, self._loaded.runner, self._pulses.step
        clock = time.perf_counter
        while True:
            pulse.beat()
            self._take_messages()
            self._client_slots.act_due()
            began_s = clock()
            batch = scheduler.next_batch()
            self._report({})  # statistics of what runs now, before a step that may take long
            if batch is None:
                self._rest()
                continue
            for events in steps.run(scheduler, runner, batch, self._may_go_on, clock, began_s):
                self._report(events)
                pulse.beat()

    def _may_go_on(self) -> bool:
        """Whether nothing waits that needs all steps to have ended."""
        return self._inbox.empty() and not self._client_slots.is_due

    def _report(self, events: StepEvents) -> None:
        scheduler = self._scheduler
        stats = scheduler.stats if self._stats_report.is_due(scheduler.changing) else None
        if not events and stats is None:
            return
        step = messages.StepEvents(events, stats)
        if self._unsent.unfinished_tasks or not _are_small(events):
            # Waits only if the events of many steps are unsent: then the parent does not read them.
            self._unsent.put(step)
        else:
            # At once: the server's process works while the step's other threads still wait, and no thread is woken
            # that would interrupt one of them.
            self._connections.tell(step)

    def _rest(self) -> None:
        """Wait for a message. If sequences wait for masks, wait for a short time only."""
        if self._scheduler.awaits_mask:
            with contextlib.suppress(Empty):
                self._handle(self._inbox.get(timeout=_MASK_POLL_S))
        else:
            self._scheduler.check()
            self._pulses.step.rest()
            self._handle(self._inbox.get())

    def _take_messages(self) -> None:
        while True:
            try:
                message = self._inbox.get_nowait()
            except Empty:
                return
            self._handle(message)

    def _handle(self, message: Job | messages.Cancel | BetweenSteps) -> None:
        match message:
            case messages.Cancel():
                self._scheduler.cancel(message.request_id)
            case BetweenSteps():
                message.act()
            case _:
                self._scheduler.add(message)


def _are_small(events: StepEvents) -> bool:
    """Whether encoding them takes less time than waking another thread to do it."""
    for told in events.values():
        for event in told:
            if isinstance(event, Delta):
                if event.scores is not None:
                    return False
            elif isinstance(event, Prompted):
                return False
    return True
