"""A stream with a name goes on without its client, which takes it up where it was, or stops it."""

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from starlette.types import Message, Receive, Send

from segue.dialects.llamacpp import LLAMACPP
from segue.dialects.openai import OPENAI
from segue.errors import InvalidField, UnknownPath
from segue.server import kept_streams
from segue.server.admission.keys import Keyring, parse_key
from segue.server.admission.limits import Limits
from segue.server.kept_streams import KeptStream, KeptStreams, Reader
from segue.server.transport.write_alarm import WriteAlarm
from segue.types import CompletionRequest, Delta, Done, Event, Finished, Prompted, Usage
from tests.server.conftest import Launch, Live
from tests.support.fakes import Pause
from tests.support.waiting import PATIENCE_S, wait_until

NAMED = {"x-conversation-id": "a b"}
LINES = '"content":"one"', '"content":"two"', '"stop":true'


class Paused:
    """One word, then another once it may, then the end."""

    def __init__(self) -> None:
        self.pauses: list[Pause] = []

    def __call__(self, request: CompletionRequest) -> Iterator[Event | Pause]:
        self.pauses.append(pause := Pause())
        yield Prompted(0, (1,), 0)
        yield Delta(0, "one", (1,))
        yield pause
        yield Delta(0, "two", (2,))
        yield Finished(0, "stop", "eos", 2)
        yield Done(Usage(1, 2, 0), 0)


@pytest.fixture
def script() -> Paused:
    return Paused()


@pytest.fixture
def live(launch: Launch, script: Paused) -> Live:
    return launch(script, dialects=(OPENAI, LLAMACPP))


@contextlib.contextmanager
def begun(live: Live, key: str = "") -> Iterator[tuple[str, Iterator[str]]]:
    """What has come of a stream that waits after its first word, and what comes."""
    body = {"prompt": "a", "stream": True}
    with live.client.stream(
        "POST", "/completion", json=body, headers=NAMED | bearer(key)
    ) as answer:
        assert answer.status_code == 200
        parts = answer.iter_text()
        yield next(parts), parts


def take_up(live: Live, start: int = 0, key: str = "") -> httpx2.Response:
    query = {"conv_id": "a b", "from": f"{start}"}
    return live.client.get("/v1/stream", params=query, headers=bearer(key))


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def look_up(live: Live, *names: str, key: str = "") -> list[dict[str, Any]]:
    answer = live.client.post(
        "/v1/streams/lookup", json={"conversation_ids": names}, headers=bearer(key)
    )
    assert answer.status_code == 200, answer.text
    return list(answer.json())


def test_it_goes_on_without_its_client(live: Live, script: Paused) -> None:
    with begun(live) as (first, _):
        pass
    [known] = look_up(live, "nobody", "a b")
    assert known["conversation_id"] == "a b"
    assert (known["is_done"], known["total_bytes"]) == (False, len(first.encode()))
    live.release(script.pauses[0])
    whole = take_up(live)
    assert whole.headers["content-type"].startswith("text/event-stream")
    assert whole.text.startswith(first)
    assert [line in whole.text for line in LINES] == [True] * 3
    [known] = look_up(live, "a b")
    assert (known["is_done"], known["total_bytes"]) == (True, len(whole.content))
    assert 0 < known["started_at"] <= known["completed_at"]
    rest = take_up(live, start=len(first.encode()))
    assert first + rest.text == whole.text
    assert take_up(live, start=len(whole.content)).content == b""


def test_its_client_reads_what_those_read_who_take_it_up(live: Live, script: Paused) -> None:
    with begun(live) as (first, parts):
        query = {"conv_id": "a b", "from": "0"}
        with live.client.stream("GET", "/v1/stream", params=query) as answer:
            taken = answer.iter_text()
            assert next(taken) == first
            live.release(script.pauses[0])
            assert "".join(taken) == "".join(parts)


def test_a_stop_ends_it_for_all(live: Live) -> None:
    with begun(live) as (_, parts):
        stopped = live.client.delete("/v1/stream", params={"conv_id": "a b"})
        assert (stopped.status_code, stopped.content) == (204, b"")
        assert "".join(parts) == ""  # it ends as a stream does
    assert live.engine.closed.wait(PATIENCE_S)
    assert look_up(live, "a b") == []
    assert take_up(live).status_code == 404
    again = live.client.delete("/v1/stream", params={"conv_id": "a b"})
    assert again.status_code == 204


def test_the_next_of_that_name_stops_it(live: Live, script: Paused) -> None:
    with begun(live):
        pass
    with begun(live) as (_, parts):
        assert live.engine.closed.wait(PATIENCE_S)
        live.release(script.pauses[1])
        assert LINES[2] in "".join(parts)
    assert LINES[2] in take_up(live).text


def test_what_is_refused_is_not_kept(live: Live) -> None:
    body = {"prompt": "a", "stream": True, "model": "unknown"}
    answer = live.client.post("/completion", json=body, headers=NAMED)
    assert answer.status_code == 404
    assert look_up(live, "a b") == []


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ({}, 400, "Missing conversation id"),
        ({"conv_id": "b"}, 404, "not found or expired"),
        ({"conv_id": "a", "from": "-1"}, 400, "from must be a number of bytes"),
        ({"conv_id": "a", "from": "1" * 20}, 400, "from must be a number of bytes"),
    ],
)
def test_what_cannot_be_taken_up(
    live: Live, query: dict[str, str], status: int, message: str
) -> None:
    answer = live.client.get("/v1/stream", params=query)
    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]


def long_text(request: CompletionRequest) -> Iterator[Event]:
    yield Prompted(0, (1,), 0)
    for _ in range(12):
        yield Delta(0, LONG, (1,))
    yield Finished(0, "stop", "eos", 12)
    yield Done(Usage(1, 12, 0), 0)


LONG = "x" * (
    1 << 18
)  # twelve are more than a client's system takes that does not read, and less than is held


def test_a_client_that_does_not_read_is_let_go_alone(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = launch(long_text, dialects=(OPENAI, LLAMACPP), write_timeout_s=0.2)
    body = b'{"prompt": "a", "stream": true}'
    head = (
        f"POST /completion HTTP/1.1\r\nhost: {live.host}\r\ncontent-type: application/json\r\n"
        f"x-conversation-id: a b\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with live.connect(num_unread=4096) as client:
        client.sendall(head.encode() + body)
        wait_until(lambda: [each["is_done"] for each in look_up(live, "a b")] == [True])
    monkeypatch.setattr(WriteAlarm, "start", lambda _: None)  # who reads has all the time he needs
    assert take_up(live).text.count(LONG) == 12


def test_it_belongs_to_its_key(launch: Launch, script: Paused) -> None:
    keys = Keyring([parse_key("one:first"), parse_key("two:second")])
    live = launch(script, dialects=(OPENAI, LLAMACPP), keys=keys)
    with begun(live, "first"):
        pass
    assert look_up(live, "a b", key="second") == []
    assert take_up(live, key="second").status_code == 404
    live.client.delete("/v1/stream", params={"conv_id": "a b"}, headers=bearer("second"))
    assert len(look_up(live, "a b", key="first")) == 1
    live.release(script.pauses[0])
    assert LINES[2] in take_up(live, key="first").text


def test_it_is_found_and_stopped_where_it_is_all_that_its_key_may_have(
    launch: Launch, script: Paused
) -> None:
    keys = Keyring([parse_key("one:first")])
    limits = Limits(max_concurrent=1)
    live = launch(script, dialects=(OPENAI, LLAMACPP), keys=keys, limits=limits)
    with begun(live, "first"):
        pass
    refused = live.client.post("/completion", json={"prompt": "a"}, headers=bearer("first"))
    assert refused.status_code == 429
    assert [each["is_done"] for each in look_up(live, "a b", key="first")] == [False]
    query = {"conv_id": "a b"}
    stopped = live.client.delete("/v1/stream", params=query, headers=bearer("first"))
    assert stopped.status_code == 204
    assert live.engine.closed.wait(PATIENCE_S)


def test_where_it_cannot_be_kept_it_ends_with_its_client(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_streams, "MAX_KEPT_SHARE", 0)
    body = {"prompt": "a", "stream": True}
    with live.client.stream("POST", "/completion", json=body, headers=NAMED) as answer:
        assert answer.headers["x-segue-ignored"] == "x-conversation-id"
        next(answer.iter_text())
    assert live.engine.closed.wait(PATIENCE_S)


def test_a_whole_answer_has_no_name(live: Live, script: Paused) -> None:
    live.follow(
        lambda _: [Prompted(0, (1,), 0), Finished(0, "stop", "eos", 0), Done(Usage(1, 0, 0), 0)]
    )
    answer = live.client.post("/completion", json={"prompt": "a"}, headers=NAMED)
    assert answer.headers["x-segue-ignored"] == "x-conversation-id"
    assert look_up(live, "a b") == []


def test_it_is_forgotten_in_the_end(
    live: Live, script: Paused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_streams, "KEPT_STREAM_S", 0.0)
    with begun(live):
        live.release(script.pauses[0])
    wait_until(lambda: look_up(live, "a b") == [])


# --- what is held ---------------------------------------------------------------------------------


async def read(reader: Reader) -> bytes:
    return b"".join([piece async for piece in reader])


def test_its_last_bytes_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_streams, "MAX_KEPT_BYTES", 8)

    async def main() -> None:
        streams = KeptStreams()
        stream = streams.open("key", "a")
        assert stream is not None
        slow = streams.read("key", "a", 0)
        for data in (b"012345", b"", b"6789", b"abcdefghijkl"):
            stream._append(data)
        assert (stream.total, stream.num_dropped) == (22, 14)
        with pytest.raises(InvalidField, match="offset lost"):
            streams.read("key", "a", 13)
        waiting = [asyncio.ensure_future(read(streams.read("key", "a", at))) for at in (14, 20, 24)]
        await asyncio.sleep(0)
        stream._append(b"mno")
        stream.stop()
        assert await asyncio.gather(*waiting) == [b"efghijklmno", b"klmno", b"o"]
        assert await read(slow) == b""

    asyncio.run(main())


def test_those_that_ended_first_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_streams, "MAX_KEPT_SHARE", 2)
    monkeypatch.setattr(kept_streams, "MAX_KEPT_STREAMS", 3)

    async def main() -> None:
        streams = KeptStreams()
        one, two = opened(streams, "key", "1"), opened(streams, "key", "2")
        assert streams.open("key", "3") is None  # both are at work
        two.stop()
        two.completed -= 1
        one.stop()
        opened(streams, "key", "3")
        assert {each.name for each in streams.facts("key")} == {"1", "3"}
        opened(streams, "other", "4")
        opened(streams, "other", "5")
        assert {each.name for each in streams.facts("key")} == {"3"}
        assert streams.open("third", "6") is None

    asyncio.run(main())


def opened(streams: KeptStreams, tenant: str, name: str) -> KeptStream:
    stream = streams.open(tenant, name)
    assert stream is not None
    return stream


def test_the_bytes_of_one_that_is_gone_from_its_place_are_held_no_longer() -> None:
    async def main() -> None:
        streams, known = KeptStreams(), []
        for _ in range(3):
            stream = opened(streams, "key", "a")
            await streams.carry("key", stream, a_word, nowhere)
            known.append(weakref.ref(stream))
            del stream
        streams.stop("key", "a")
        gc.collect()
        assert [each() for each in known] == [None] * 3

    asyncio.run(main())


async def a_word(receive: Receive, send: Send) -> None:
    await send({"type": "http.response.body", "body": b"one", "more_body": False})


async def nowhere(message: Message) -> None: ...


def test_several_processes_keep_none() -> None:
    async def main() -> None:
        assert KeptStreams(is_alone=False).open("", "a") is None
        streams = KeptStreams()
        assert streams.open("", "") is None
        assert streams.open("", "a" * 257) is None
        with pytest.raises(UnknownPath):
            streams.read("", "a", 0)

    asyncio.run(main())
