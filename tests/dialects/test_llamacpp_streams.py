"""llama.cpp's `/v1/streams/lookup` and `/v1/stream`, as far as they are pages; what they do is in tests/server."""

import asyncio
from typing import Any

import pytest

from segue.dialects.base import StreamFacts
from segue.dialects.llamacpp import stream_pages
from segue.errors import InvalidField
from tests.support.one_card import OneCard


def looked_up(*names: str) -> Any:
    service = OneCard()
    service.streams = [StreamFacts(name, False, 7, 100, 0) for name in ("a", "a::m", "ab", "b")]
    values = {**stream_pages.LOOKUP_FIELDS.read({"conversation_ids": list(names)}).values}
    return asyncio.run(stream_pages.look_up(service, values | {"tenant": ""})).body


def test_a_name_is_that_of_the_same_with_a_model_too() -> None:
    assert [each["conversation_id"] for each in looked_up("a", "c")] == ["a", "a::m"]
    assert looked_up() == []
    assert looked_up("b") == [
        {
            "conversation_id": "b",
            "is_done": False,
            "total_bytes": 7,
            "started_at": 100,
            "completed_at": 0,
        }
    ]


@pytest.mark.parametrize("wrong", ["", "-1", "1.5", "\u0661", "1" * 20, 1])
def test_where_to_begin_is_a_number_of_bytes(wrong: Any) -> None:
    with pytest.raises(InvalidField, match="from must be a number of bytes"):
        stream_pages.STREAM_FIELDS.read({"conv_id": "a", "from": wrong})
    assert stream_pages.STREAM_FIELDS.read({"from": "12"}).values["start"] == 12
