"""Requests that name more tokens than vLLM's model runner has room for: its engine would die of them."""

from typing import Any

import pytest

from segue.distributed.request.room import Room, _num_tokens
from segue.errors import InvalidField
from segue.runners.fake import EOS, FakeVocab
from segue.types import Sampling
from tests.distributed.harness import run, started, told
from tests.distributed.stand_in import StandIn
from tests.engine.harness import ask

ROOM = Room(biases=3, allowed=4, stops=2, bad_words=6)
FIT: list[dict[str, Any]] = [
    {"logit_bias": dict.fromkeys(range(3), 1.0)},
    {"allowed_token_ids": (97, 98, 99, 100)},
    {"stop_token_ids": tuple(range(50))},
    {"stop_token_ids": (5, EOS), "min_tokens": 1},
    {"bad_words": ("abcdef",)},
]
TOO_MANY: dict[str, list[dict[str, Any]]] = {
    "logit_bias": [
        {"logit_bias": dict.fromkeys(range(4), 1.0)},
        {"logit_bias": dict.fromkeys(range(3), 1.0), "ignore_eos": True},
        {"text_bias": (("abcd", 1.0),)},
    ],
    "allowed_token_ids": [{"allowed_token_ids": (97, 98, 99, 100, 101)}],
    "stop_token_ids": [{"stop_token_ids": (5, 6), "min_tokens": 1}],
    "bad_words": [{"bad_words": ("abc", "defg")}],
}


async def asked(sampling: dict[str, Any], **more: Any) -> Any:
    llm = StandIn()
    llm.room = ROOM
    async with started(llm) as engine:
        return await told(engine, ask("x", sampling=Sampling(**sampling), **more))


@pytest.mark.parametrize("sampling", FIT)
def test_what_there_is_room_for(sampling: dict[str, Any]) -> None:
    async def check() -> None:
        assert (await asked(sampling)).done

    run(check())


@pytest.mark.parametrize(
    ("field", "sampling"), [(field, each) for field, those in TOO_MANY.items() for each in those]
)
def test_more_is_refused(field: str, sampling: dict[str, Any]) -> None:
    async def check() -> None:
        story = await asked(sampling)
        assert story.failed is not None
        assert (story.failed.code, story.failed.param) == (InvalidField.code, field)
        assert (await asked(sampling, max_tokens=0)).done  # nothing is drawn

    run(check())


class Spaced(FakeVocab):
    """A token for each letter, a space before it included, as many vocabularies have them."""

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        return list(
            text[1:].encode().replace(text[1:2].encode(), b"_", 1)
            if text[0] == " "
            else text.encode()
        )


def test_words_after_a_space_count_where_they_are_as_long() -> None:
    assert _num_tokens(["ab", "ab", " ab"], FakeVocab()) == 4  # one text twice counts once
    assert _num_tokens(["abc"], Spaced()) == 6
