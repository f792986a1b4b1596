from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.engine.sampling import scores
from segue.engine.sampling.candidates import Distribution
from segue.engine.sampling.scores import Scores, empty, score, score_drawn
from segue.types import LOWEST_LOGPROB, Sampling, TokenScore
from tests.engine.harness import Bench, ask


def log_softmax(row: Any) -> Any:
    wide = row.astype(np.float64)
    return wide - wide.max() - np.log(np.exp(wide - wide.max()).sum())


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 12), st.integers(30, 2000))
def test_agrees_with_a_sorted_log_softmax(seed: int, rows: int, top: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 5, (rows, width)).astype(np.float32).round(1)  # many ties
    targets = rng.integers(0, width, rows).tolist()
    got = score(logits, targets, top)
    for i, target in enumerate(targets):
        exact = log_softmax(logits[i])
        np.testing.assert_allclose(got.logprobs[i], exact[target], atol=1e-4)
        assert got.ranks[i] == 1 + (logits[i] > logits[i, target]).sum()
        order = np.lexsort((np.arange(width), -logits[i]))[:top]
        assert got.ids[i].tolist() == order.tolist()
        np.testing.assert_allclose(got.values[i], exact[order], atol=1e-4)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.sets(st.integers(0, 39), min_size=1))
def test_tokens_that_are_asked_for_stand_in_place_of_the_likeliest(
    seed: int, rows: int, asked: set[int]
) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 5, (rows, 40)).astype(np.float32).round(1)
    logits[rng.random((rows, 40)) < 0.2] = -np.inf
    logits[:, 0] = 1.0
    targets, listed = rng.integers(0, 40, rows).tolist(), list(asked)
    got, whole = score(logits, targets, 7, listed), score(logits, targets, 40)
    assert got.logprobs.tobytes() == whole.logprobs.tobytes()
    assert got.ranks.tolist() == whole.ranks.tolist()
    for i in range(rows):
        known = dict(zip(whole.ids[i].tolist(), whole.values[i].tolist(), strict=True))
        assert set(got.ids[i].tolist()) == asked
        assert got.values[i].tolist() == [known[token] for token in got.ids[i].tolist()]
        assert got.values[i].tolist() == sorted(got.values[i].tolist(), reverse=True)


def test_what_is_asked_for_is_told_though_it_could_not_be_drawn() -> None:
    weights = np.array([0.0, 0.25, 0.0, 0.75], np.float32)
    for ids, names, cut_off in ((None, range(4), 0), (np.array([9, 8, 7, 6]), (9, 8, 7, 6), 5)):
        asked = (names[2], names[1], cut_off, names[3])
        got = score_drawn(Distribution(ids, weights), names[1], 0, asked)
        assert got.ids.tolist() == [[names[3], names[1], names[2], cut_off]]
        assert got.values[0, 2:].tolist() == [LOWEST_LOGPROB] * 2
        assert got.values[0, 1] == got.logprobs[0]
        assert got.ranks.tolist() == [2]


@pytest.mark.parametrize("fields", [{}, {"post_sampling_probs": True}], ids=str)
def test_asking_for_tokens_changes_no_token_and_tells_their_scores(fields: dict[str, Any]) -> None:
    asked = (70, 260, 5, 101)
    sampling = Sampling(seed=4, temperature=0.9)
    plain = {"n": 2, "max_tokens": 12, "sampling": sampling, **fields}
    [all_of_them, few] = Bench().run(
        ask("so it goes", logprobs=264, **plain),
        ask("so it goes", logprobs=1, logprob_token_ids=asked, **plain),
    )
    assert few.tokens == all_of_them.tokens
    for choice, rows in few.scores.items():
        for row, other in zip(rows, all_of_them.scores[choice], strict=True):
            known = {each.token: each.logprob for each in other.top}
            assert {each.token for each in row.top} == set(asked)
            assert [each.logprob for each in row.top] == [
                known.get(each.token, LOWEST_LOGPROB) for each in row.top
            ]
            assert (row.token, row.logprob, row.rank) == (other.token, other.logprob, other.rank)


def test_the_chosen_tokens_value_is_the_same_float_among_the_alternatives() -> None:
    """Harnesses compare the two with ==."""
    logits = np.random.default_rng(0).normal(0, 3, (50, 500)).astype(np.float32)
    targets = logits.argmax(axis=1).tolist()
    got = score(logits, targets, 3)
    assert (got.values[:, 0] == got.logprobs).all()


def test_a_row_scores_the_same_whoever_is_beside_it() -> None:
    logits = np.random.default_rng(0).normal(0, 3, (7, 4099)).astype(np.float32)
    together = score(logits, [5] * 7, 4)
    for i in range(7):
        alone = score(logits[i : i + 1].copy(), [5], 4)
        assert alone.logprobs[0] == together.logprobs[i]
        assert (alone.values[0] == together.values[i]).all()


def test_minus_infinity_is_a_number() -> None:
    logits = np.full((1, 100), -np.inf, np.float32)
    logits[0, 3] = 1.0
    got = score(logits, [4], 2)
    assert got.logprobs.tolist() == [LOWEST_LOGPROB]
    assert got.values[0].tolist() == [0.0, LOWEST_LOGPROB]


def test_what_could_not_be_drawn_is_no_alternative() -> None:
    """Special tokens of probability 0 were listed where a low temperature left less than was asked for."""
    weights = np.array([0.0, 0.25, 0.0, 0.75], np.float32)
    whole = score_drawn(Distribution(None, weights), 3, 4, asked=())
    assert whole.ids.tolist() == [[3, 1]]
    cut = score_drawn(Distribution(np.array([9, 8, 7, 6]), weights), 8, 4, asked=())
    assert (cut.ids.tolist(), cut.ranks.tolist()) == ([[6, 8]], [2])


def test_joined_and_cut() -> None:
    logits = np.random.default_rng(0).normal(0, 3, (6, 100)).astype(np.float32)
    whole = score(logits, list(range(6)), 3)
    parts = empty(3).joined(score(logits[:2], [0, 1], 3)).joined(score(logits[2:], [2, 3, 4, 5], 3))

    def same(a: Scores, b: Scores) -> bool:
        pairs = zip(a._columns(), b._columns(), strict=True)
        return all(np.array_equal(x, y) for x, y in pairs)

    assert same(whole, parts)
    assert same(whole.first(2).narrowed(1), score(logits[:2], [0, 1], 1))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("num_top", [0, 1, 3])
def test_a_row_that_is_not_all_numbers_scores_nan(bad: float, num_top: int) -> None:
    logits = np.random.default_rng(0).normal(0, 3, (2, 300)).astype(np.float32)
    logits[1, 7] = bad
    got = score(logits, [5, 5], num_top)
    assert np.isfinite(got.logprobs).tolist() == [True, False]


@pytest.mark.parametrize("shift", [-1e4, -100, 100, 1e4])
def test_only_differences_between_logits_matter(shift: float) -> None:
    logits = np.random.default_rng(0).normal(0, 3, (1, 5000)).round(2).astype(np.float32)
    plain, moved = score(logits, [5], 2), score(logits + np.float32(shift), [5], 2)
    np.testing.assert_allclose(moved.logprobs, plain.logprobs, atol=2e-3)
    assert moved.ids.tolist() == plain.ids.tolist()


@pytest.mark.parametrize("num_top", [0, 1, 3])
@pytest.mark.parametrize("num_tokens", [1, 2, 9])
def test_columns_of_a_prompt_are_the_scores_of_its_tokens(num_tokens: int, num_top: int) -> None:
    chance = np.random.default_rng(num_tokens)
    tokens = chance.integers(0, 20, num_tokens).tolist()
    logits = chance.normal(size=(num_tokens - 1, 20)).astype(np.float32)
    found = score(logits, tokens[1:], num_top) if num_tokens > 1 else empty(num_top)
    made = found.of_prompt(tokens, lambda token: b"%d" % token)
    first = TokenScore(tokens[0], b"%d" % tokens[0], None, 0, ())
    assert list(made) == [first, *found.tokens(tokens[1:], lambda token: b"%d" % token)]
    assert len(made) == num_tokens
    assert made.num_scores == num_tokens + num_top * (num_tokens - 1)
    assert list(made) == list(made)


def test_no_object_is_made_of_a_prompts_scores_where_others_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A million took half a second of the thread of all requests, and as long of the server's."""
    with monkeypatch.context() as context:
        context.setattr(scores, "TokenScore", None)
        context.setattr(scores, "Alternative", None)
        (story,) = Bench().run(ask("a prompt", max_tokens=0, prompt_logprobs=5))
    found = list(story.prompted[0].scores or ())
    assert [score.token for score in found] == list(story.prompted[0].tokens)
    assert [len(score.top) for score in found] == [0, *[5] * (len(found) - 1)]
