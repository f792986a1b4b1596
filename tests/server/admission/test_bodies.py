import asyncio
import contextlib
from collections.abc import Iterator

import pytest
from starlette.types import Message

from segue.bounds import MAX_BODIES_HELD, MAX_BODIES_SHARE
from segue.dialects.llamacpp import LLAMACPP
from segue.dialects.vllm import VLLM
from segue.errors import BodyTooLarge, Overloaded, RequestError, Unavailable, UnsupportedMedia
from segue.server.admission.bodies import Bodies, holder
from segue.server.admission.request_record import RequestRecord

SIZE = 1000


@pytest.mark.parametrize(
    ("header", "refusal"),
    [
        ((b"content-length", b"1001"), BodyTooLarge),
        ((b"content-length", b"1000"), None),
        ((b"content-length", b"-9999"), None),  # no number of bytes: the connection refuses it
        ((b"content-encoding", b"gzip"), UnsupportedMedia),
        ((b"content-encoding", b" Identity"), None),
        ((b"content-type", b"Application/JSON; charset=utf-8"), None),
        ((b"content-type", b"text/plain"), None),
    ],
    ids=lambda value: value[1].decode() if isinstance(value, tuple) else "",
)
def test_a_body_is_refused_by_its_head(
    header: tuple[bytes, bytes], refusal: type[RequestError] | None
) -> None:
    with pytest.raises(refusal) if refusal else contextlib.nullcontext():
        Bodies(SIZE, 30.0, num_processes=1).check({"headers": [header]}, LLAMACPP)


def test_what_a_page_can_post_without_being_asked_is_refused_from_a_page() -> None:
    plain, origin = (b"content-type", b"text/plain"), (b"origin", b"https://a.example")
    with pytest.raises(UnsupportedMedia):
        Bodies(SIZE, 30.0, num_processes=1).check({"headers": [plain, origin]}, LLAMACPP)
    with pytest.raises(UnsupportedMedia):
        Bodies(SIZE, 30.0, num_processes=1).check({"headers": [plain]}, VLLM)
    with pytest.raises(UnsupportedMedia):
        Bodies(SIZE, 30.0, num_processes=1).check(
            {"headers": [(b"content-type", b"application/json"), plain]}, VLLM
        )


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (
            (b"content-type", b"application/x-www-form-urlencoded"),
            'The header content-type must be application/json, not "application/x-www-form-urlencoded". '
            "With curl: -H 'content-type: application/json'.",
        ),
        (
            (b"content-encoding", b"gzip"),
            'The body must not be compressed: send it without content-encoding "gzip".',
        ),
        (
            (b"content-type", b'\xff"' * 5),
            'The header content-type must be application/json, not "ÿ\\"ÿ\\"ÿ\\"ÿ\\"ÿ\\"". '
            "With curl: -H 'content-type: application/json'.",
        ),
    ],
)
def test_a_refusal_names_the_header_and_what_would_be_right(
    header: tuple[bytes, bytes], words: str
) -> None:
    with pytest.raises(UnsupportedMedia) as refused:
        Bodies(SIZE, 30.0, num_processes=1).check({"headers": [header]}, VLLM)
    assert refused.value.message == words


def test_bodies_count_for_a_key_or_else_for_an_address() -> None:
    record = RequestRecord({"method": "POST", "path": "/", "headers": []})
    record.tenant = "alice"
    assert holder({"client": ("1.2.3.4", 5)}, record) == "key alice"
    record.tenant = ""
    assert holder({"client": ("1.2.3.4", 5)}, record) == "address 1.2.3.4"
    assert holder({"client": None}, record) == "address "


def sender(size: int) -> Iterator[Message]:
    yield {"type": "http.request", "body": b"x" * size}


async def held(bodies: Bodies, holders: list[str]) -> None:
    """Bodies of the largest size, all at once."""
    stack = []
    try:
        for holder in holders:
            messages = sender(SIZE)

            async def receive(messages: Iterator[Message] = messages) -> Message:
                return next(messages)

            reading = bodies.read(receive, holder)
            stack.append(reading)
            assert len(await reading.__aenter__()) == SIZE
    finally:
        for reading in reversed(stack):
            await reading.__aexit__(None, None, None)


@pytest.mark.parametrize("num_processes", [1, 2, 64])
def test_processes_divide_the_memory_for_bodies(num_processes: int) -> None:
    most = max(MAX_BODIES_HELD // num_processes, 1)
    share = max(MAX_BODIES_SHARE // num_processes, 1)
    bodies = Bodies(SIZE, 30.0, num_processes)
    asyncio.run(held(bodies, [f"{i}" for i in range(most)]))
    with pytest.raises(Unavailable):
        asyncio.run(held(bodies, [f"{i}" for i in range(most + 1)]))
    bodies = Bodies(SIZE, 30.0, num_processes)
    asyncio.run(held(bodies, ["one"] * share))
    with pytest.raises(Overloaded):
        asyncio.run(held(bodies, ["one"] * (share + 1)))
