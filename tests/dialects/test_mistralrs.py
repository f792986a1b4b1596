import asyncio
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from segue.bounds import MAX_REPEATED_CHARS
from segue.dialects.base import Reply, Stamp
from segue.dialects.mistralrs import MISTRALRS
from segue.engine.sampling.sampler import Sampler, plan
from segue.errors import InvalidField
from segue.types import Buckets, Sampling, Served
from tests.support.one_card import OneCard

STAMP = Stamp(request_id="r", public_id="r", created=5, seed=99, fingerprint="f")


def sampling(**body: Any) -> Sampling:
    return MISTRALRS.operations[0].parse({"prompt": "a", **body}, STAMP).request.sampling


def test_a_prompt_is_scored_where_it_is_echoed() -> None:
    for body, scored in (({"logprobs": 2}, None), ({"logprobs": 2, "echo": True}, 2)):
        request = MISTRALRS.operations[0].parse({"prompt": "a", **body}, STAMP).request
        assert (request.logprobs, request.prompt_logprobs) == (2, scored)


def test_a_suffix_is_not_returned_without_end() -> None:
    """One of a few megabytes behind each of 128 choices was an answer of a gigabyte."""
    body = {"prompt": "a", "n": 64, "suffix": "s" * (MAX_REPEATED_CHARS // 64)}
    MISTRALRS.operations[0].parse(body, STAMP)
    with pytest.raises(InvalidField, match=r"suffix would bring .* characters"):
        MISTRALRS.operations[0].parse({**body, "suffix": f"{body['suffix']}s"}, STAMP)


def test_the_nucleus_is_found_before_min_p() -> None:
    order = sampling().order
    assert order.index("temperature") < order.index("top_k") < order.index("top_p")
    assert order.index("top_p") < order.index("min_p")


def test_biases_come_after_penalties_and_of_these_repetition_comes_last() -> None:
    """As seen in 0.9.5: a bias of 4 raised a token by 4, whatever its penalties; these were divided by repetition's."""
    read = sampling(repetition_penalty=2, frequency_penalty=1, logit_bias={"0": 4}, temperature=0)
    assert plan(read) == ("penalties", "logit_bias", "temperature")
    sampler = Sampler(read, 1, 0, 3)
    sampler.start([0])
    sampler.push(0)
    row = sampler.admitted(np.array([3, 1, -2], np.float32), 1).logits
    assert row.tolist() == [(3 - 1) / 2 + 4, 1, -2]


def test_penalties_of_the_prompt_are_of_repetition_alone() -> None:
    assert not sampling(presence_penalty=1, frequency_penalty=1).penalize_prompt


@pytest.mark.parametrize("share", [-1, 0, 1, 1.5, 1e9])
def test_shares_outside_of_zero_and_one_are_off(share: float) -> None:
    assert sampling(top_p=share).top_p == Sampling().top_p
    assert sampling(min_p=share).min_p == Sampling().min_p


def test_shares_are_kept_to() -> None:
    read = sampling(top_p=0.5, min_p=0.25)
    assert (read.top_p, read.min_p) == (0.5, 0.25)


def test_what_follows_an_end_token_is_part_of_the_answer() -> None:
    read = sampling(ignore_eos=True)
    assert read.pass_eos
    assert not read.ignore_eos


def test_a_large_bias_is_the_largest() -> None:
    """-1e30 is how clients of a system without a bound ban a token; it was refused."""
    assert sampling(logit_bias={"5": -1e30, "6": 1e9}).logit_bias == {5: -1e6, 6: 1e6}


def test_repetitions_begin_with_one_token() -> None:
    """Its DRY costs multiplier * base^n, n being 1 at least, where no repetition is allowed."""
    read = sampling(dry_multiplier=2, dry_base=3, dry_allowed_length=0)
    assert (read.dry_multiplier, read.dry_allowed_length) == (6, 1)
    read = sampling(dry_multiplier=2, dry_base=3, dry_allowed_length=1)
    assert (read.dry_multiplier, read.dry_allowed_length) == (2, 1)


def test_no_default_comes_in_the_place_of_a_length() -> None:
    defaults = {"sampling.dry_multiplier": 2.0, "sampling.dry_allowed_length": 4}
    body = {"prompt": "a", "dry_allowed_length": 0, "dry_base": 3}
    read = MISTRALRS.operations[0].parse(body, STAMP, defaults).request.sampling
    assert (read.dry_multiplier, read.dry_allowed_length) == (6, 1)


def test_metrics_have_its_names() -> None:
    service = OneCard()
    first = Buckets((0.5,), (1.0, 2.0), 7.25)
    service.requests = Served(reasons={"stop": 3, "abort": 1}, first_s=first)
    (companion,) = (each for each in MISTRALRS.companions if each.path == "/metrics")

    async def answered() -> Reply:
        return await companion.answer(service, {})

    reply = asyncio.run(answered())
    assert dict(reply.headers)["content-type"].startswith("text/plain; version=0.0.4")
    told = {
        (sample.name, *(value for name, value in sample.labels.items() if name != "model")): (
            sample.value
        )
        for family in text_string_to_metric_families(reply.body)
        for sample in family.samples
    }
    expected = {
        ("mistralrs_sequences_running",): 2,
        ("mistralrs_sequences_capacity",): 8,
        ("mistralrs_kv_cache_blocks_used",): 0,
        ("mistralrs_speculative_drafts_total",): 3,
        ("mistralrs_sequences_completed_total", "stop"): 3,
        ("mistralrs_sequences_completed_total", "canceled"): 1,
        ("mistralrs_time_to_first_token_seconds_bucket", "0.5"): 1,
        ("mistralrs_time_to_first_token_seconds_count",): 3,
        ("http_request_duration_seconds_count",): 0,
    }
    assert told | expected == told


def test_a_model_is_unloaded_and_reloaded() -> None:
    service, pages = OneCard(), {each.path: each for each in MISTRALRS.companions}

    def told(what: str) -> Any:
        page = pages[f"/v1/models/{what}"]
        values = page.table.read({"model_id": "tiny"}).values

        async def answered() -> Any:
            return (await page.answer(service, values)).body

        return asyncio.run(answered())

    for what, status in [
        ("unload", "unloaded"),
        ("unload", "unloaded"),
        ("status", "unloaded"),
        ("reload", "loaded"),
        ("reload", "loaded"),
    ]:
        assert told(what) == {"model_id": "tiny", "status": status}
    service.leave(is_used=True)
    assert told("reload") == {"model_id": "tiny", "status": "loaded"}
    assert not service.card("tiny").is_leaving, "it was reloaded, and then it went"
