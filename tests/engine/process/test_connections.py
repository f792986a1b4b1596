import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.engine.process import messages
from segue.engine.process.connections import (
    Arrived,
    Connections,
    Outbox,
    PendingCall,
    Pulses,
    QueuedOutbox,
)
from segue.engine.process.pulse import Pulse
from segue.runners.fake import FakeLoader
from segue.types import Delta, Done, Event, Stats, Usage
from tests.engine.harness import ask
from tests.support.waiting import PATIENCE_S, wait_until

READY = messages.Ready(FakeLoader()().info)
DONE = Done(Usage(1, 1, 0), 0)


class Heard(Outbox):
    def __init__(self) -> None:
        self.reports: list[messages.Report] = []

    def send(self, report: messages.Report) -> None:
        self.reports.append(report)


class Inside:
    """The connections of a worker, with a parent in this process and server processes over socketpairs."""

    def __init__(self) -> None:
        self.parent = Heard()
        self.arrived: SimpleQueue[Arrived] = SimpleQueue()
        self.pulses = Pulses(Pulse(time.monotonic), Pulse(time.monotonic))
        self.connections = Connections(self.parent, self.arrived.put, self.pulses)
        self.threads: list[threading.Thread] = []
        self.socks: list[socket.socket] = []

    def attach(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE_S)
        serve = self.connections.serve_process
        self.threads.append(threading.Thread(target=serve, args=(theirs, READY), daemon=True))
        self.threads[-1].start()
        self.socks.append(ours)
        assert heard(ours) == READY
        assert isinstance(heard(ours), messages.StepEvents)
        return ours

    def close(self) -> None:
        for sock in self.socks:
            sock.close()
        for thread in self.threads:
            thread.join(PATIENCE_S)


@pytest.fixture
def inside() -> Iterator[Inside]:
    made = Inside()
    yield made
    made.close()


def heard(sock: socket.socket) -> messages.Report | None:
    return messages.receive(sock, messages.reports)


def delta(text: str) -> Event:
    return Delta(0, text, (1,))


def submit(sock: socket.socket, inside: Inside) -> str:
    request = ask("x")
    sock.sendall(messages.frame(messages.Submit(request)))
    arrived = inside.arrived.get(timeout=PATIENCE_S)
    assert isinstance(arrived, messages.Submit)
    return request.request_id


def test_each_process_is_told_its_own_events_and_all_are_told_the_statistics(
    inside: Inside,
) -> None:
    first, second = inside.attach(), inside.attach()
    one, two = submit(first, inside), submit(second, inside)
    inside.connections.tell(
        messages.StepEvents({one: [delta("a"), DONE], two: [delta("b")]}, Stats(running=2))
    )
    assert heard(first) == messages.StepEvents({one: [delta("a"), DONE]}, Stats(running=2))
    assert heard(second) == messages.StepEvents({two: [delta("b")]}, Stats(running=2))
    assert inside.parent.reports == [messages.StepEvents({}, Stats(running=2))]
    inside.connections.tell(messages.StepEvents({two: [DONE]}))  # nothing for the first
    inside.connections.tell(messages.StepEvents({}, Stats(finished=2)))
    assert heard(first) == messages.StepEvents({}, Stats(finished=2))


def test_the_parent_may_ask_too(inside: Inside) -> None:
    request = ask("x")
    inside.connections.take(messages.Submit(request), inside.parent)
    assert inside.arrived.get(timeout=PATIENCE_S) == messages.Submit(request)
    alone = messages.StepEvents({request.request_id: [delta("a")]})
    inside.connections.tell(alone)
    other = inside.attach()
    theirs = submit(other, inside)
    inside.connections.tell(messages.StepEvents({request.request_id: [DONE], theirs: [DONE]}))
    assert inside.parent.reports == [alone, messages.StepEvents({request.request_id: [DONE]})]
    assert heard(other) == messages.StepEvents({theirs: [DONE]})


def test_one_that_comes_later_knows_the_last_statistics(inside: Inside) -> None:
    inside.connections.tell(messages.StepEvents({}, Stats(finished=7)))
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    serve = inside.connections.serve_process
    threading.Thread(target=serve, args=(theirs, READY), daemon=True).start()
    assert heard(ours) == READY
    assert heard(ours) == messages.StepEvents({}, Stats(finished=7))
    ours.close()


def test_one_that_comes_while_statistics_are_told_knows_the_last_ones(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are told between the last ones that it is sent and its place among those who are told."""
    told = threading.Event()
    changing = Watched()
    inside.connections._changing = changing  # type: ignore[assignment]
    send = QueuedOutbox.send

    def tell() -> None:
        inside.connections.tell(messages.StepEvents({}, Stats(finished=8)))
        told.set()

    def interrupted(outbox: QueuedOutbox, report: messages.Report) -> None:
        send(outbox, report)
        if isinstance(report, messages.StepEvents) and not told.is_set():
            threading.Thread(target=tell, daemon=True).start()
            wait_until(lambda: told.is_set() or changing.num_waiting)

    monkeypatch.setattr(QueuedOutbox, "send", interrupted)
    late = inside.attach()
    assert heard(late) == messages.StepEvents({}, Stats(finished=8))


class Watched:
    """A lock that knows how many threads want it beside its holder."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_inside = 0

    @property
    def num_waiting(self) -> int:
        return self._num_inside - 1

    def __enter__(self) -> None:
        self._num_inside += 1
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        self._num_inside -= 1


def test_requests_of_a_lost_process_are_cancelled_and_no_others(inside: Inside) -> None:
    first, second = inside.attach(), inside.attach()
    lost = {submit(first, inside) for _ in range(3)}
    over = submit(first, inside)
    kept = submit(second, inside)
    inside.connections.tell(messages.StepEvents({over: [DONE]}))
    first.close()
    cancelled = {inside.arrived.get(timeout=PATIENCE_S) for _ in lost}
    assert cancelled == {messages.Cancel(request_id) for request_id in lost}
    inside.connections.tell(
        messages.StepEvents({**{each: [delta("x")] for each in lost}, kept: [DONE]})
    )
    assert heard(second) == messages.StepEvents({kept: [DONE]})
    assert inside.arrived.empty()


def test_a_call_is_answered_where_it_came_from(inside: Inside) -> None:
    first, second = inside.attach(), inside.attach()
    for sock in (first, second):
        sock.sendall(messages.frame(messages.Tokenize(0, "x", True, True)))
        asked = inside.arrived.get(timeout=PATIENCE_S)
        assert isinstance(asked, PendingCall)
        asked.outbox.send(messages.Answer(0, tokens=[sock.fileno()]))
    for sock in (first, second):
        assert heard(sock) == messages.Answer(0, tokens=[sock.fileno()])


def test_a_parent_that_is_gone_is_no_error_of_what_is_told() -> None:
    """The thread that reads ends the process; a traceback of the step thread came before it (`complete | head`)."""
    ours, theirs = socket.socketpair()
    with ours:
        theirs.close()
        Outbox(ours).send(messages.StepEvents({}))


def test_a_ping_is_answered(inside: Inside) -> None:
    sock = inside.attach()
    sock.sendall(messages.frame(messages.Ping()))
    assert heard(sock) == messages.Pong(0.0, 0.0)


def test_one_that_does_not_read_is_disconnected_and_delays_nobody() -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)  # some would take all
    outbox = QueuedOutbox(theirs, most_behind=1 << 20)
    sending = threading.Thread(target=outbox.serve, daemon=True)
    sending.start()
    large = messages.Answer(0, pieces=[b"x" * 100_000])
    for _ in range(30):  # nobody reads, and no call waits
        outbox.send(large)
    while ours.recv(1 << 20):
        pass  # what the system had taken; then the end
    ours.close()
    sending.join(PATIENCE_S)
    theirs.close()


@given(
    st.lists(st.integers(0, 200_000), max_size=12),
    st.lists(st.integers(0, 300_000), max_size=12),
)
@settings(max_examples=30, deadline=None)
def test_every_message_arrives_whole_and_in_order(sizes: list[int], reads: list[int]) -> None:
    """Whatever is taken at once and whatever waits for the thread, while the other side reads a little at a time."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    outbox = QueuedOutbox(theirs)
    sending = threading.Thread(target=outbox.serve, daemon=True)
    sending.start()
    sent = [messages.Answer(i, pieces=[bytes([i]) * size]) for i, size in enumerate(sizes)]
    wanted = b"".join(map(messages.frame, sent))
    got = bytearray()
    turns = iter(reads)
    for message in sent:
        outbox.send(message)
        if size := next(turns, 0):
            with contextlib.suppress(BlockingIOError):
                got += ours.recv(size, socket.MSG_DONTWAIT)
    while len(got) < len(wanted):
        got += ours.recv(1 << 16)
    assert bytes(got) == wanted
    outbox.end()
    sending.join(PATIENCE_S)
    assert not sending.is_alive()
    ours.close()
    theirs.close()


def test_what_is_no_message_ends_its_connection(inside: Inside) -> None:
    """Whoever sent it would wait for ever: nobody reads the connection any more."""
    ours = inside.attach()
    ours.sendall(messages.frame(messages.Tokenize(1, 3, True, True)))  # type: ignore[arg-type]
    assert heard(ours) is None
