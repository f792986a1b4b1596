"""The worker's connections: to the process that started it, and to server processes beside that one.

Ids of requests are unique over all processes. Events go to the connection that their request came over, statistics
to all. When a server process is gone, its requests are cancelled; when the parent is gone, the worker ends.
"""

import contextlib
import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from segue.engine.process import messages
from segue.engine.process.pulse import Pulse
from segue.types import LAST, Event, Stats

log = logging.getLogger("segue.worker")

MOST_BEHIND = 64 << 20  # bytes that a server process may be behind; then its connection is closed


class Pulses(NamedTuple):
    step: Pulse
    inbox: Pulse


class Outbox:
    """Sends messages from several threads, one whole message at a time. Waits while the other side does not read."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()

    def send(self, report: messages.Report) -> None:
        data = messages.frame(report)
        # Where the other side is gone, the thread that reads from it sees to that.
        with self._lock, contextlib.suppress(ConnectionError):
            self._sock.sendall(data)


class QueuedOutbox(Outbox):
    """Never waits: what the system does not take at once, a thread sends. So a server process that does not read
    delays nobody else."""

    def __init__(self, sock: socket.socket, most_behind: int = MOST_BEHIND) -> None:
        super().__init__(sock)
        self._most_behind = most_behind
        self._unsent: deque[bytes] = deque()  # the first one may be being sent
        self._num_unsent = 0  # bytes
        self._has_unsent = threading.Condition(self._lock)
        self._is_over = False

    def send(self, report: messages.Report) -> None:
        data = messages.frame(report)
        with self._lock:
            if not self._unsent:
                data = data[self._take_at_once(data) :]
            if not data:
                return
            self._unsent.append(data)
            self._num_unsent += len(data)
            self._has_unsent.notify()
            is_too_far_behind = self._num_unsent > self._most_behind
        if is_too_far_behind:
            log.error("a server process does not read: its connection is closed")
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)

    def _take_at_once(self, data: bytes) -> int:
        try:
            return self._sock.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)  # it is gone: the thread that reads from it sees to that

    def serve(self) -> None:
        """Send what is queued until the connection is closed: the body of a thread."""
        with contextlib.suppress(OSError):
            while True:
                with self._lock:
                    self._has_unsent.wait_for(lambda: bool(self._unsent) or self._is_over)
                    if self._is_over:
                        return
                    data = self._unsent[0]
                self._sock.sendall(data)
                with self._lock:
                    self._unsent.popleft()
                    self._num_unsent -= len(data)

    def end(self) -> None:
        """The connection is closed: end the thread."""
        with self._lock:
            self._is_over = True
            self._has_unsent.notify()


class PendingCall(NamedTuple):
    """A call, and where its answer goes."""

    outbox: Outbox
    message: messages.Call


Arrived = messages.Submit | messages.Cancel | PendingCall


class Connections:
    def __init__(self, parent: Outbox, arrive: Callable[[Arrived], None], pulses: Pulses) -> None:
        """`arrive` is called with what a connection asks for, from the connection's own thread."""
        self._parent = parent
        self._arrive = arrive
        self._pulses = pulses
        self._all: tuple[Outbox, ...] = (parent,)
        self._changing = threading.Lock()
        self._owners: dict[str, Outbox] = {}  # by open request; those of the parent are not in it
        self._stats: Stats | None = None

    # --- what arrives: each connection has a thread ------------------------------------------------

    def serve_parent(self, sock: socket.socket) -> None:
        self._listen(sock, self._parent)
        os._exit(0)  # the parent closed the socket or is gone

    def serve_listener(self, listener: socket.socket, ready: messages.Ready) -> None:
        """Take connections of server processes, without end: the body of a thread."""
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=self.serve_process, args=(sock, ready), daemon=True).start()

    def serve_process(self, sock: socket.socket, ready: messages.Ready) -> None:
        """One server process, until its connection closes; then its requests are cancelled."""
        outbox = QueuedOutbox(sock)
        sending = threading.Thread(target=outbox.serve, daemon=True)
        sending.start()
        outbox.send(ready)
        with self._changing:  # else it could miss the statistics that are told between these two
            outbox.send(messages.StepEvents({}, self._stats))
            self._all = (*self._all, outbox)
        self._listen(sock, outbox)
        with self._changing:
            self._all = tuple(each for each in self._all if each is not outbox)
        for request_id, owner in list(self._owners.items()):
            if owner is outbox:
                self._cancel(messages.Cancel(request_id))
        outbox.end()
        sending.join()
        sock.close()

    def _listen(self, sock: socket.socket, outbox: Outbox) -> None:
        """Until the connection closes, or brings what is no message: whoever sent that would wait for ever."""
        try:
            while (message := messages.receive(sock, messages.worker_messages)) is not None:
                self.take(message, outbox)
        except OSError:
            pass  # of sending a Pong after the other side closed
        except msgspec.MsgspecError:
            log.exception("a message could not be read")

    def take(self, message: messages.WorkerMessage, outbox: Outbox) -> None:
        """One message of one connection."""
        match message:
            case messages.Ping():
                outbox.send(messages.Pong(self._pulses.step.age_s, self._pulses.inbox.age_s))
            case messages.Submit(request):
                if outbox is not self._parent:
                    self._owners[request.request_id] = outbox
                self._arrive(message)
            case messages.Cancel():
                self._cancel(message)
            case _:
                self._arrive(PendingCall(outbox, message))

    def _cancel(self, message: messages.Cancel) -> None:
        self._owners.pop(message.request_id, None)
        self._arrive(message)

    # --- what is told ------------------------------------------------------------------------------

    def tell(self, step: messages.StepEvents) -> None:
        """Send events to the processes that their requests came from, and statistics to all."""
        with self._changing:
            self._stats = step.stats or self._stats
            everyone = self._all
        if len(everyone) == 1:
            return self._parent.send(step)
        shares = self._shares(step.events)
        for outbox in everyone:
            events = shares.get(outbox, {})
            if events or step.stats is not None:
                outbox.send(messages.StepEvents(events, step.stats))

    def _shares(self, events: dict[str, list[Event]]) -> dict[Outbox, dict[str, list[Event]]]:
        owners = self._owners
        shares: dict[Outbox, dict[str, list[Event]]] = {}
        for request_id, told in events.items():
            owner = owners.get(request_id, self._parent)  # which ignores what was cancelled
            shares.setdefault(owner, {})[request_id] = told
            if isinstance(told[-1], LAST):
                owners.pop(request_id, None)
        return shares
