"""A runner that draws changes nothing in the answers, whatever it leaves to the sampler."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.engine.sampling.candidates import Candidates
from segue.engine.seam import Draw, Logits, Span
from segue.runners.fake import FakeRunner, default_capabilities
from segue.types import Constraint, Sampling
from tests.engine.draws import choose, cut
from tests.engine.harness import Bench, ask


class DrawingRunner(FakeRunner):
    """Draws by cuts; leaves every third draw to the sampler."""

    def __init__(self) -> None:
        super().__init__(replace(default_capabilities(), draws=True), end_bias=3.0)
        self.num_draws: list[int] = []
        self._logits: Logits = np.empty((0, 0), np.float32)

    def decode(self, spans: Sequence[Span]) -> Logits:
        self._logits = super().decode(spans)
        return self._logits

    def draw(self, draws: Sequence[Draw]) -> Sequence[int | None]:
        self.num_draws.append(len(draws))
        return [None if each.row % 3 == 2 else self._drawn(each) for each in draws]

    def _drawn(self, draw: Draw) -> int | None:
        row = self._logits[draw.row]
        if not abs(row.max()) < np.inf:
            return None
        candidates = Candidates(row.copy())
        for each in draw.cuts:
            cut(candidates, each)
        return choose(candidates, draw)[0]


def samplings() -> st.SearchStrategy[Sampling]:
    return st.builds(
        Sampling,
        seed=st.integers(0, 1000),
        temperature=st.sampled_from([0.0, 0.7, 1.0]),
        dynatemp_range=st.sampled_from([0.0, 0.0, 0.5]),
        top_k=st.sampled_from([0, 1, 20]),
        top_p=st.sampled_from([1.0, 0.8]),
        min_p=st.sampled_from([0.0, 0.1]),
        typical_p=st.sampled_from([1.0, 1.0, 0.5]),
        top_n_sigma=st.sampled_from([0.0, 0.0, 1.0]),
        xtc_probability=st.sampled_from([0.0, 0.0, 0.5]),
        xtc_threshold=st.sampled_from([0.1, 0.02]),
        mirostat=st.sampled_from([0, 0, 0, 1, 2]),
        repetition_penalty=st.sampled_from([1.0, 1.2]),
        ignore_eos=st.booleans(),
        min_tokens=st.sampled_from([0, 3]),
        logit_bias=st.sampled_from([{}, {101: 5.0, 256: -100.0}]),
        allowed_token_ids=st.sampled_from([None, None, (65, 66, 256)]),
    )


@given(
    many=st.lists(
        st.tuples(samplings(), st.sampled_from([None, 2]), st.booleans()), min_size=1, max_size=5
    )
)
@settings(max_examples=25, deadline=None)
def test_answers_are_those_without_it(many: list[tuple[Sampling, int | None, bool]]) -> None:
    word = Constraint(kind="regex", value="[a-d]{3,9}", param="regex")
    requests = [
        ask(
            f"abcabcabc {number}",
            sampling=sampling,
            logprobs=logprobs,
            constraint=word if is_held and sampling.allowed_token_ids is None else None,
            max_tokens=12,
            n=2,
        )
        for number, (sampling, logprobs, is_held) in enumerate(many)
    ]
    alone = Bench(FakeRunner(default_capabilities(), end_bias=3.0)).run(*requests)
    by_weight = FakeRunner(replace(default_capabilities(), draws=True), end_bias=3.0)
    for runner in (DrawingRunner(), by_weight):
        together = Bench(runner).run(*requests)
        assert [one.essence for one in together] == [one.essence for one in alone]


def test_all_sequences_of_a_step_are_drawn_in_one_call() -> None:
    runner = DrawingRunner()
    sampling = Sampling(temperature=0.8, seed=1, ignore_eos=True)
    Bench(runner).run(*(ask(f"{i}", sampling=sampling, max_tokens=4) for i in range(5)))
    assert max(runner.num_draws) == 5
    assert sum(runner.num_draws) <= 5 * 4


def test_a_row_that_is_not_made_of_numbers_fails_its_request_alone() -> None:
    class Broken(DrawingRunner):
        def decode(self, spans: Sequence[Span]) -> Logits:
            logits = super().decode(spans)
            if len(logits) > 1:
                logits[1, 7] = np.nan
            return logits

    first, second, third = Bench(Broken()).run(*(ask(f"{i}", max_tokens=3) for i in range(3)))
    assert second.failed is not None
    assert second.failed.message == "fake: the model produced logits that are not numbers"
    assert first.done is not None
    assert third.failed is not None or third.done is not None


def test_one_score_of_a_prompt_that_is_no_number_fails_its_request() -> None:
    """What was computed of it does not become the prefix of others."""

    class Broken(FakeRunner):
        def decode(self, spans: Sequence[Span]) -> Logits:
            logits = super().decode(spans)
            if len(logits) > 3:
                logits[2] = np.nan
            return logits

    bench = Bench(Broken(default_capabilities()))
    scored, plain = ask("abcdefgh", prompt_logprobs=0), ask("abcdefgh", max_tokens=1)
    [one] = bench.run(scored)
    assert one.failed is not None
    assert "not numbers" in one.failed.message
    [other] = bench.run(plain)
    assert other.prompted[0].num_cached == 0


@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"sampling": Sampling(allowed_token_ids=(65,), logit_bias={65: 5.0}, min_tokens=2)},
        {"constraint": Constraint(kind="regex", value="[a-d]{3,9}", param="regex")},
        {"logprobs": 1},
    ],
)
@pytest.mark.parametrize(
    ("logit", "words"), [(-np.inf, "ruled out every token"), (np.nan, "not numbers")]
)
def test_a_model_that_leaves_no_token_is_not_the_callers_fault(
    logit: float, words: str, asked: dict[str, Any], draws: bool
) -> None:
    """It was 400, as if the request had forbidden every token; with a constraint it ended as at a dead end."""

    class Broken(FakeRunner):
        def decode(self, spans: Sequence[Span]) -> Logits:
            logits = super().decode(spans)
            logits.fill(logit)
            return logits

    runner = Broken(replace(default_capabilities(), draws=draws))
    (one,) = Bench(runner).run(ask("a", **asked))
    assert one.failed is not None
    assert one.failed.code == "engine_fault"
    assert words in one.failed.message


def test_a_request_that_forbids_every_token_is_the_callers_fault() -> None:
    sampling = Sampling(allowed_token_ids=(65,), logit_bias={65: -np.inf})
    (one,) = Bench(FakeRunner(default_capabilities())).run(ask("a", sampling=sampling))
    assert one.failed is not None
    assert one.failed.code == "invalid_value"
