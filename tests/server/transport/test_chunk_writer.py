import gc
from types import SimpleNamespace
from typing import Any

import pytest

from segue.server.transport.chunk_writer import chunk_writer, offer_chunks


class Cycle(SimpleNamespace):
    """The part of uvicorn's cycle that is used."""

    def __init__(self, **fields: Any) -> None:
        self.written: list[bytes] = []
        usual: dict[str, Any] = {
            "scope": {},
            "chunked_encoding": True,
            "disconnected": False,
            "response_complete": False,
            "flow": SimpleNamespace(write_paused=False),
            "transport": SimpleNamespace(write=self.written.append),
        }
        super().__init__(**usual | fields)


def test_a_body_becomes_a_chunk() -> None:
    cycle: Any = Cycle()
    offer_chunks(cycle)
    writer = chunk_writer(cycle.scope)
    assert writer is not None
    assert writer.is_open
    writer.write(b"data: {}\n\n")
    writer.write(b"")  # would be the last chunk
    assert cycle.written == [b"a\r\ndata: {}\n\n\r\n"]


@pytest.mark.parametrize(
    "state",
    [
        {"chunked_encoding": None},
        {"chunked_encoding": False},
        {"disconnected": True},
        {"response_complete": True},
        {"flow": SimpleNamespace(write_paused=True)},
    ],
)
def test_it_is_closed_while_send_must_decide(state: dict[str, Any]) -> None:
    cycle: Any = Cycle(**state)
    offer_chunks(cycle)
    writer = chunk_writer(cycle.scope)
    assert writer is not None
    assert not writer.is_open


def test_a_request_is_not_kept_alive_by_its_writer() -> None:
    cycle: Any = Cycle()
    offer_chunks(cycle)
    writer = chunk_writer(cycle.scope)
    gc.disable()
    try:
        del cycle
        assert writer is not None
        assert not writer.is_open
    finally:
        gc.enable()


def test_other_servers_offer_none() -> None:
    assert chunk_writer({}) is None
    assert chunk_writer({"extensions": {}}) is None
