"""Scores of tokens that a request names by id."""

from typing import Any

import pytest

from segue.runners.fake import FakeRunner, default_capabilities
from tests.distributed.harness import GREEDY, rounded, run, started, told
from tests.distributed.stand_in import StandIn
from tests.engine.harness import Bench, ask


@pytest.mark.parametrize("fields", [{}, {"best_of": 3}, {"n": 2, "stop": ("e",)}], ids=str)
def test_scores_of_tokens_by_id_are_those_of_our_own_engine(fields: dict[str, Any]) -> None:
    asked = (260, 32, 101, 7)
    request = ask(
        "so it", logprobs=0, logprob_token_ids=asked, max_tokens=9, sampling=GREEDY, **fields
    )

    async def check() -> None:
        [expected] = Bench(FakeRunner(default_capabilities())).run(request)
        async with started(StandIn(stride=2)) as engine:
            story = await told(engine, request)
        assert story.texts == expected.texts
        for choice, rows in expected.scores.items():
            for ours, theirs in zip(rows, story.scores[choice], strict=True):
                assert (theirs.token, theirs.piece) == (ours.token, ours.piece)
                assert rounded([theirs.logprob]) == rounded([ours.logprob])
                assert rounded(list(theirs.top)) == rounded(list(ours.top))
                assert {each.token for each in theirs.top} == set(asked)

    run(check())


def test_a_model_runner_that_would_mix_up_scores_is_not_asked_for_tokens_by_id() -> None:
    async def check() -> None:
        llm = StandIn()
        llm.can_score_asked = False
        async with started(llm) as engine:
            story = await told(engine, ask("x", logprobs=0, logprob_token_ids=(3,)))
            assert story.failed is not None
            assert story.failed.param == "logprob_token_ids"
            assert (await told(engine, ask("x", logprobs=0, sampling=GREEDY))).done
        assert len(llm.asked) == 1

    run(check())
