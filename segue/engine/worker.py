"""The model's own process: an inbox thread that prepares requests, and a step thread that owns the runner.

It ends when its parent does: the socket closes. If a step raises, the process ends too, because nobody can say
what is left in the KV; the supervisor tells the clients and starts a fresh one.
"""

import gc
import logging
import os
import signal
import socket
import threading
import time
from queue import Empty, SimpleQueue

from segue.engine.job import Job
from segue.engine.messages import (
    Answer,
    Cancel,
    GetPieces,
    GetStats,
    LoadFailed,
    Order,
    Ready,
    Report,
    Submit,
    Tokenize,
    Told,
    frame,
    orders,
    receive,
)
from segue.engine.prepare import prepare
from segue.engine.scheduler import Scheduler
from segue.engine.seam import Loaded, Loader
from segue.errors import InvalidField, SegueError
from segue.types import Failed

log = logging.getLogger("segue.worker")

EXIT_STEP_FAILED = 70


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
    logging.basicConfig(level=log_level, format="%(levelname)s %(name)s: %(message)s")
    arrived: SimpleQueue[Order | None] = SimpleQueue()
    # Reads from the start: a parent that dies while the model loads must not leave us behind.
    threading.Thread(target=_listen, args=(sock, arrived), daemon=True).start()
    outbox = Outbox(sock)
    try:
        loaded = loader()
    except SegueError as error:
        outbox.send(LoadFailed(error.code, error.message))
        return
    except Exception as error:
        log.exception("loading the model failed")
        outbox.send(LoadFailed("model_unavailable", f"{type(error).__name__}: {error}"))
        return
    worker = Worker(loaded, outbox, chunk_rows)
    threading.Thread(target=worker.serve_inbox, args=(arrived,), daemon=True).start()
    gc.collect()
    gc.freeze()  # what the model brought stays; collections look at requests only
    outbox.send(Ready(loaded.info))
    try:
        worker.serve_steps()
    except Exception:
        log.exception("a step failed; the worker ends")
        os._exit(EXIT_STEP_FAILED)


def _listen(sock: socket.socket, arrived: SimpleQueue[Order | None]) -> None:
    while (order := receive(sock, orders)) is not None:
        arrived.put(order)
    os._exit(0)  # the parent closed the socket or is gone


class Worker:
    def __init__(self, loaded: Loaded, outbox: Outbox, chunk_rows: int) -> None:
        self._loaded = loaded
        self._outbox = outbox
        self._scheduler = Scheduler(loaded.runner, loaded.vocab, chunk_rows, time.perf_counter)
        self._inbox: SimpleQueue[Job | Cancel | GetStats] = SimpleQueue()

    # --- inbox thread: everything that needs no runner --------------------------------------------

    def serve_inbox(self, arrived: SimpleQueue[Order | None]) -> None:
        while (order := arrived.get()) is not None:
            match order:
                case Submit():
                    self._submit(order)
                case Tokenize() | GetPieces():
                    self._outbox.send(self._answer(order))
                case Cancel() | GetStats():
                    self._inbox.put(order)

    def _submit(self, order: Submit) -> None:
        request_id = order.request.request_id
        try:
            job = prepare(order.request, self._loaded.vocab, self._loaded.runner.capabilities)
        except SegueError as error:
            failed = Failed(error.code, error.message, error.param, details=error.details)
            self._outbox.send(Told([(request_id, failed)]))
        except Exception:
            log.exception("request %s could not be prepared", request_id)
            failed = Failed("engine_fault", "the request could not be prepared")
            self._outbox.send(Told([(request_id, failed)]))
        else:
            self._inbox.put(job)

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

    # --- step thread: owns the runner -------------------------------------------------------------

    def serve_steps(self) -> None:
        scheduler, runner = self._scheduler, self._loaded.runner
        while True:
            self._take_orders()
            batch = scheduler.next_batch()
            if batch is None:
                scheduler.check()
                self._carry_out(self._inbox.get())
                continue
            told = scheduler.commit(batch, runner.decode(batch.spans))
            if told:
                self._outbox.send(Told(told))

    def _take_orders(self) -> None:
        while True:
            try:
                order = self._inbox.get_nowait()
            except Empty:
                return
            self._carry_out(order)

    def _carry_out(self, order: Job | Cancel | GetStats) -> None:
        match order:
            case Cancel():
                self._scheduler.cancel(order.request_id)
            case GetStats():
                self._outbox.send(Answer(order.call, stats=self._scheduler.stats))
            case _:
                self._scheduler.add(order)
