"""One slot, used by one request after another: nothing of the one before it is left in the next."""

from collections.abc import Iterator
from typing import Any

import pytest

from segue.runners.fake import FakeLoader
from tests.support.live import Live

PLAIN = {"prompt": "plain", "max_tokens": 24, "seed": 3, "cache_prompt": False, "logprobs": 3}
# Each leaves behind a state of another kind, if anything is left at all.
STATEFUL: list[dict[str, Any]] = [
    {"logit_bias": {"97": 100}},
    {"allowed_token_ids": [98, 99]},
    {"bad_words": ["e", "t"]},
    {"grammar": "root ::= [x-z]+"},
    {"guided_regex": "[0-9]{5,20}"},
    {"guided_choice": ["one", "two"]},
    {"repetition_penalty": 1.9, "repeat_last_n": 4},
    {"presence_penalty": 2, "frequency_penalty": 2},
    {"dry_multiplier": 2.0, "dry_allowed_length": 1},
    {"mirostat": 2, "mirostat_tau": 0.1},
    {"mirostat": 1, "mirostat_tau": 9.0},
    {"min_tokens": 20, "ignore_eos": True},
    {"stop": ["e", "a"], "stop_token_ids": [100]},
    {"temperature": 0.0},
    {"n": 3, "best_of": 4},
    {"suffix": "and so on"},
    {"echo": True, "prompt_logprobs": 2},
]


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with Live(FakeLoader(num_slots=1)) as server:
        yield server


@pytest.mark.parametrize("fields", STATEFUL, ids=lambda fields: ",".join(fields))
def test_the_next_request_starts_afresh(live: Live, fields: dict[str, Any]) -> None:
    alone = live.complete(**PLAIN).json()["choices"]
    for seed in range(6):
        used = live.complete(**{"prompt": "used", "max_tokens": 12, "seed": seed, **fields})
        assert used.status_code in (200, 400), used.text
        assert live.complete(**PLAIN).json()["choices"] == alone
