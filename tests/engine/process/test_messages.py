import socket

from segue.engine.process.messages import (
    Cancel,
    StepEvents,
    Submit,
    WorkerMessage,
    frame,
    receive,
    reports,
    worker_messages,
)
from segue.types import Delta, Done, Event, Finished, Prompted, TokenScore, Usage
from tests.engine.harness import ask
from tests.support.prompt_scores import columns


def test_messages_cross_whole_and_in_order() -> None:
    ours, theirs = socket.socketpair()
    sent: list[WorkerMessage] = [
        Submit(ask("a", [1, 2], stop=("x",))),
        Cancel("r1"),
        Submit(ask("é" * 20000)),
    ]
    with theirs:
        with ours:
            for message in sent:
                ours.sendall(frame(message))
            assert [receive(theirs, worker_messages) for _ in sent] == sent
        assert receive(theirs, worker_messages) is None


def test_every_event_survives() -> None:
    score = TokenScore(5, b"\xff", None, 0, ())
    told: list[Event] = [
        Prompted(0, (1, 2), 1, "text", columns([score])),
        Delta(0, "hi", (5,), (score,)),
        Finished(0, "stop", "stop_text", 3, "x", 0.5, 0.25),
        Done(Usage(1, 2, 3), 9),
    ]
    events = {"a": told, "b": told[1:2]}
    assert reports.decode(frame(StepEvents(events))[4:]) == StepEvents(events)
