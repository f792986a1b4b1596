"""The model's own process: an inbox thread, threads that prepare requests, and a step thread that owns the runner.

It ends when its parent does: the socket closes. If a step raises, the process ends too, because nobody can say
what is left in the KV; the supervisor tells the clients and starts a fresh one.
"""

import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import NamedTuple

from segue.engine.constraints.compiler import Compiler, Grammar, step_back
from segue.engine.process.messages import (
    Answer,
    Cancel,
    GetPieces,
    LoadFailed,
    Ping,
    Pong,
    Ready,
    Report,
    StepEvents,
    Submit,
    Tokenize,
    WorkerMessage,
    frame,
    orders,
    receive,
)
from segue.engine.process.preparation import NUM_LARGE, NUM_SMALL, Lanes
from segue.engine.process.pulse import Pulse
from segue.engine.process.stats_report import StatsReport
from segue.engine.request.job import Job
from segue.engine.request.prepare import prepare
from segue.engine.scheduling.scheduler import Scheduler
from segue.engine.seam import Loaded, Loader
from segue.errors import EngineFault, InvalidField, SegueError
from segue.logs import set_up
from segue.types import CompletionRequest, Event, Failed

log = logging.getLogger("segue.worker")

EXIT_FAILED = 70
_NUM_COMPILERS = 2
_SWITCH_S = 0.001  # the step thread must not wait long for Python code of the others
_HELD_S = 0.002  # how often to look whether a slow constraint lets its sequences go on


@dataclass(frozen=True)
class Compiled:
    """A request whose constraint has been compiled, or why it could not be."""

    order: Submit
    outcome: Grammar | Exception


Arrivals = SimpleQueue[WorkerMessage | Compiled]


class Outbox:
    """Both threads send; a message is never torn."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()

    def send(self, report: Report) -> None:
        data = frame(report)
        with self._lock:
            self._sock.sendall(data)


def main(sock: socket.socket, loader: Loader, chunk_rows: int, log_level: int) -> None:
    """The entry of the process. Signals to the whole group are the parent's to handle: it drains us."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    set_up(log_level)
    sys.setswitchinterval(_SWITCH_S)
    arrived: Arrivals = SimpleQueue()
    outbox = Outbox(sock)
    pulses = Pulses(Pulse(time.monotonic), Pulse(time.monotonic))
    # Reads from the start: a parent that dies while the model loads must not leave us behind.
    threading.Thread(target=_listen, args=(sock, arrived, outbox, pulses), daemon=True).start()
    try:
        loaded = loader()
    except SegueError as error:
        outbox.send(LoadFailed(error.code, error.message))
        return
    except Exception as error:
        log.exception("loading the model failed")
        outbox.send(LoadFailed("model_unavailable", f"{type(error).__name__}: {error}"))
        return
    worker = Worker(loaded, outbox, chunk_rows, arrived, pulses)
    for serve in worker.threads:
        threading.Thread(target=_end_if_it_fails, args=(serve,), daemon=True).start()
    gc.collect()
    gc.freeze()  # what the model brought stays; collections look at requests only
    outbox.send(Ready(loaded.info))
    _end_if_it_fails(worker.serve_steps)


def _end_if_it_fails(thread: Callable[[], None]) -> None:
    """Half a worker would be up but deaf."""
    try:
        thread()
    except Exception:
        log.exception("the worker ends")
        os._exit(EXIT_FAILED)


class Pulses(NamedTuple):
    step: Pulse
    inbox: Pulse


def _listen(sock: socket.socket, arrived: Arrivals, outbox: Outbox, pulses: Pulses) -> None:
    with contextlib.suppress(OSError):  # of an answer that nobody waits for any more
        while (order := receive(sock, orders)) is not None:
            if isinstance(order, Ping):
                outbox.send(Pong(pulses.step.age_s, pulses.inbox.age_s))
            else:
                arrived.put(order)
    os._exit(0)  # the parent closed the socket or is gone


class Worker:
    def __init__(
        self, loaded: Loaded, outbox: Outbox, chunk_rows: int, arrived: Arrivals, pulses: Pulses
    ) -> None:
        self._loaded = loaded
        self._pulses = pulses
        self._outbox = outbox
        self._scheduler = Scheduler(loaded.runner, loaded.vocab, chunk_rows, time.perf_counter)
        self._stats_report = StatsReport(time.monotonic)
        self._arrived = arrived
        self._inbox: SimpleQueue[Job | Cancel] = SimpleQueue()
        self._compiler = Compiler(loaded.vocab, loaded.runner.capabilities.vocab_size)
        self._to_compile: SimpleQueue[Submit] = SimpleQueue()
        self._lanes = Lanes()
        self._preparing: set[str] = set()  # requests that the step thread has not got yet
        self._handing_over = (
            threading.Lock()
        )  # so that a cancel finds a request in one place or the other

    @property
    def threads(self) -> list[Callable[[], None]]:
        """What runs beside the step thread."""
        return [
            self.serve_inbox,
            *[self.serve_compiler] * _NUM_COMPILERS,
            *[self.serve_small] * NUM_SMALL,
            *[self.serve_large] * NUM_LARGE,
        ]

    # --- inbox thread: passes on, and does nothing that takes long --------------------------------

    def serve_inbox(self) -> None:
        pulse = self._pulses.inbox
        while True:
            pulse.rest()
            order = self._arrived.get()
            pulse.beat()
            match order:
                case Submit():
                    self._admit(order)
                case Compiled():
                    self._take_compiled(order)
                case Tokenize() | GetPieces():
                    size = len(order.text if isinstance(order, Tokenize) else order.tokens)
                    self._lanes.put("", size, partial(self._answer_call, order))
                case Cancel():
                    with self._handing_over:
                        self._preparing.discard(order.request_id)
                        self._inbox.put(order)

    def _admit(self, order: Submit) -> None:
        """A constraint that is not known yet goes through the compilers first; others pass it by."""
        constraint = order.request.constraint
        grammar = None if constraint is None else self._compiler.known(constraint)
        self._preparing.add(order.request.request_id)
        if constraint is None or grammar is not None:
            self._submit(order, grammar)
        else:
            self._to_compile.put(order)

    def _take_compiled(self, compiled: Compiled) -> None:
        request_id = compiled.order.request.request_id
        if request_id not in self._preparing:
            return  # cancelled meanwhile
        if isinstance(compiled.outcome, Exception):
            self._preparing.discard(request_id)
            self._refuse(request_id, compiled.outcome)
        else:
            self._submit(compiled.order, compiled.outcome)

    def _submit(self, order: Submit, grammar: Grammar | None) -> None:
        work = partial(self._prepare, order.request, grammar)
        self._lanes.put(order.request.tenant, _size(order.request), work)

    def _refuse(self, request_id: str, error: Exception) -> None:
        if isinstance(error, SegueError):
            failed = Failed(error.code, error.message, error.param, details=error.details)
        else:
            log.error("request %s could not be prepared", request_id, exc_info=error)
            failed = Failed("engine_fault", "the request could not be prepared")
        self._outbox.send(StepEvents([(request_id, failed)]))

    # --- preparation threads: one request's work is nobody else's wait ----------------------------

    def serve_small(self) -> None:
        self._lanes.serve_small()

    def serve_large(self) -> None:
        step_back()
        self._lanes.serve_large()

    def _prepare(self, request: CompletionRequest, grammar: Grammar | None) -> None:
        request_id = request.request_id
        if request_id not in self._preparing:
            return  # cancelled meanwhile
        try:
            job = prepare(request, self._loaded.vocab, self._loaded.runner.capabilities, grammar)
        except Exception as error:
            self._preparing.discard(request_id)
            self._refuse(request_id, error)
            return
        with self._handing_over:
            if request_id in self._preparing:
                self._preparing.discard(request_id)
                self._inbox.put(job)

    def _answer_call(self, order: Tokenize | GetPieces) -> None:
        try:
            answer = self._answer(order)
        except Exception:
            log.exception("a call could not be answered")
            answer = Answer(order.call, error=(EngineFault.code, "the call failed", None))
        self._outbox.send(answer)

    def _answer(self, order: Tokenize | GetPieces) -> Answer:
        vocab = self._loaded.vocab
        if isinstance(order, Tokenize):
            tokens = vocab.tokenize(order.text, order.add_special, order.parse_special)
            return Answer(order.call, tokens=tokens)
        for token in order.tokens:
            if not 0 <= token < vocab.size:
                message = f"tokens holds id {token}, but the model's ids are 0 to {vocab.size - 1}"
                return Answer(order.call, error=(InvalidField.code, message, "tokens"))
        return Answer(order.call, pieces=[vocab.piece(token) for token in order.tokens])

    # --- compiler threads: slow, and in nobody's way ----------------------------------------------

    def serve_compiler(self) -> None:
        step_back()
        while True:
            order = self._to_compile.get()
            constraint = order.request.constraint
            if constraint is None or order.request.request_id not in self._preparing:
                continue
            try:
                outcome: Grammar | Exception = self._compiler.compile(constraint)
            except Exception as error:
                outcome = error
            self._arrived.put(Compiled(order, outcome))

    # --- step thread: owns the runner -------------------------------------------------------------

    def serve_steps(self) -> None:
        scheduler, runner, pulse = self._scheduler, self._loaded.runner, self._pulses.step
        while True:
            pulse.beat()
            self._take_orders()
            batch = scheduler.next_batch()
            self._tell([])  # who runs now, before a step that may take long
            if batch is None:
                self._rest()
                continue
            self._tell(scheduler.commit(batch, runner.decode(batch.spans)))

    def _tell(self, events: list[tuple[str, Event]]) -> None:
        stats = self._stats_report.due(self._scheduler.stats)
        if events or stats is not None:
            self._outbox.send(StepEvents(events, stats))

    def _rest(self) -> None:
        """Until there is an order, or while every sequence waits for its constraint, a moment."""
        if self._scheduler.awaits_mask:
            with contextlib.suppress(Empty):
                self._carry_out(self._inbox.get(timeout=_HELD_S))
        else:
            self._scheduler.check()
            self._pulses.step.rest()
            self._carry_out(self._inbox.get())

    def _take_orders(self) -> None:
        while True:
            try:
                order = self._inbox.get_nowait()
            except Empty:
                return
            self._carry_out(order)

    def _carry_out(self, order: Job | Cancel) -> None:
        match order:
            case Cancel():
                self._scheduler.cancel(order.request_id)
            case _:
                self._scheduler.add(order)


def _size(request: CompletionRequest) -> int:
    """How much of it has to be looked at, in characters and token ids."""
    prompts = [*request.prompts]
    if request.infill is not None:
        prompts.append(request.infill.suffix)
    size = sum(len(part) for prompt in prompts for part in prompt.parts)
    sampling = request.sampling
    return size + len(sampling.allowed_token_ids or ()) + len(sampling.stop_token_ids)
