"""A stream that breaks after its first word, as each dialect's clients must be able to read it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from segue.dialects import DIALECTS
from segue.dialects.base import Operation
from segue.types import Delta, Failed, Prompted
from tests.server.conftest import TWO_WORDS, Live
from tests.support.fakes import Pause

OPERATIONS = {
    f"/{dialect.name}{operation.path}": operation
    for dialect in DIALECTS
    for operation in dialect.operations
    if "stream" in operation.table.known  # the others write no text
}
GOOD: dict[str, Any] = {
    **{"model": "tiny", "prompt": "a", "input_prefix": "a", "input_suffix": "b"},
    **{"token_ids": [1], "output_mode": "text"},
}


@pytest.fixture(scope="module")
def every() -> Iterator[Live]:
    live = Live(TWO_WORDS, dialects=DIALECTS)
    yield live
    live.stop()


def payloads(text: str, operation: Operation) -> list[str]:
    if operation.framing == "ndjson":
        return text.splitlines()
    return [frame.removeprefix("data: ") for frame in text.split("\n\n")[:-1]]


def message_of(event: dict[str, Any]) -> Any:
    """In an `error` that is an object or the words themselves, or in the object of RFC 7807."""
    error = event.get("error", event)
    return error if isinstance(error, str) else error.get("message", error.get("detail"))


@pytest.mark.parametrize("path", OPERATIONS)
def test_the_error_is_an_event_and_the_stream_ends(every: Live, path: str) -> None:
    pause = Pause()
    failed = Failed("engine_died", "it died")
    every.follow(lambda _: [Prompted(0, (1,), 0, "a"), Delta(0, "one", (1,)), pause, failed])
    operation = OPERATIONS[path]
    body = {row.name: GOOD[row.name] for row in operation.table.rows if row.name in GOOD}
    with every.client.stream("POST", path, json={**body, "stream": True}) as answer:
        assert answer.status_code == 200
        parts = answer.iter_text()
        text = next(parts)
        assert "one" in text
        every.release(pause)
        text += "".join(parts)
    *_, last = seen = payloads(text, operation)
    if operation.framing == "sse":
        assert last == "[DONE]"
        last = seen[-2]
    assert message_of(json.loads(last)) == "it died"
