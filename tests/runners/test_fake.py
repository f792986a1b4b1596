"""The fake runner holds the engine to the contract of steps that are begun ahead."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.engine.sampling.sampler import Sampler
from segue.engine.seam import Changes, Cut, Draw, Repeats, Span
from segue.runners.fake import VOCAB_SIZE, FakeRunner, default_capabilities
from segue.types import Sampling

_GREEDY = (Cut("top_k", 0.0, 1),)
_PENALTIES = Cut("penalties", 0.0, 0)


def _runner(**limits: int) -> FakeRunner:
    return FakeRunner(default_capabilities(rows_ahead=4, **limits))


def _draws(*points: float) -> list[Draw]:
    return [Draw(row, point, (Cut("scale", 0.8, 0),)) for row, point in enumerate(points)]


def _penalised(token: int = 5, **fields: Any) -> list[Draw]:
    seen = Repeats(np.array([3, token], np.int64), 0, 0, 2, 1.5, 0.0, 0.0)
    return [Draw(0, 0.5, (_PENALTIES,), None, seen._replace(**fields))]


def test_a_chain_of_steps_computes_what_single_steps_do() -> None:
    ahead, single = _runner(), _runner()
    prompts = [Span(0, [1, 2, 3], 0, 1), Span(1, [9], 0, 1)]
    ahead.decode(prompts)
    single.decode(prompts)
    draws, numbers = _draws(0.2, 0.7), [5, 6]
    ahead.begin([Span(0, [5], 3, 1), Span(1, [6], 1, 1)], draws)
    for step in range(4):
        ahead.begin([Span(0, [-1], 4 + step, 1), Span(1, [-2], 2 + step, 1)], draws)
        logits, tokens, _ = ahead.end()
        wanted = single.decode([Span(s, [numbers[s]], (3, 1)[s] + step, 1) for s in (0, 1)])
        assert (logits == wanted).all()
        assert list(tokens) == list(single.draw(draws))
        numbers = [token for token in tokens if token is not None]
        assert len(numbers) == 2
    ahead.end()
    ahead.trim(0, 4)


def test_changes_are_for_the_draw_alone() -> None:
    runner = _runner()
    plain = FakeRunner().decode([Span(0, [1], 0, 1)])
    best = int(plain[0].argmax())
    ban = Changes(np.array([best], np.int64), np.array([-np.inf], np.float32))
    lift = Changes(np.array([7], np.int64), np.array([99.0], np.float32))
    runner.begin([Span(0, [1], 0, 1)], [Draw(0, 0.0, _GREEDY, ban)])
    logits, [token], _ = runner.end()
    assert token not in (best, None)
    assert (logits == plain).all()
    runner.begin([Span(0, [2], 1, 1)], [Draw(0, 0.0, _GREEDY, lift)])
    assert list(runner.end().tokens) == [7]


def test_penalties_are_for_the_draw_alone_and_may_count_the_token_before() -> None:
    runner = _runner()
    plain = FakeRunner().decode([Span(0, [1, 2], 0, 2)])
    best = int(plain[1].argmax())
    lift = Changes(np.array([best], np.int64), np.array([99.0], np.float32))
    runner.begin([Span(0, [1], 0, 1)], [Draw(0, 0.0, _GREEDY, lift)])
    seen = Repeats(np.array([2], np.int64), 0, 0, 1, 1.0, 50.0, 0.0)
    again = Draw(0, 0.0, (_PENALTIES, *_GREEDY), None, seen._replace(drawn=0))
    runner.begin([Span(0, [2], 1, 1)], [again])
    assert list(runner.end().tokens) == [best]
    logits, [token], _ = runner.end()
    assert token not in (best, None)
    assert (logits == plain[1]).all()
    runner.trim(0, 1)
    runner.begin([Span(0, [2], 1, 1)], [again._replace(repeats=seen)])
    assert list(runner.end().tokens) == [best]


def test_tokens_of_an_open_draw_may_not_be_changed() -> None:
    runner, tokens = _runner(), np.array([2, 3, 0], np.int64)
    seen = Repeats(tokens, 0, 0, 2, 1.5, 0.0, 0.0)
    runner.begin([Span(0, [1], 0, 1)], [Draw(0, 0.0, (_PENALTIES, *_GREEDY), None, seen)])
    tokens[2] = 7
    runner.end()
    runner.begin([Span(0, [1], 1, 1)], [Draw(0, 0.0, (_PENALTIES, *_GREEDY), None, seen)])
    tokens[1] = 7
    with pytest.raises(RuntimeError, match="tokens of an open draw were changed"):
        runner.end()


def test_without_a_drawn_token_the_next_step_takes_token_0() -> None:
    runner, single = _runner(), _runner()
    runner.begin([Span(0, [1], 0, 1)], [Draw(0, 0.5, (Cut("top_p", 0.5, 1),))])
    runner.begin([Span(0, [-1], 1, 1)], [])
    assert list(runner.end().tokens) == [None]
    single.decode([Span(0, [1], 0, 1)])
    assert (runner.end().logits == single.decode([Span(0, [0], 1, 1)])).all()


def test_logits_last_until_the_next_step_is_begun() -> None:
    runner = _runner()
    runner.begin([Span(0, [1], 0, 1)], _draws(0.5))
    runner.begin([Span(0, [-1], 1, 1)], _draws(0.5))
    first = runner.end().logits
    assert np.isfinite(first).all()
    runner.begin([Span(0, [-1], 2, 1)], [])
    assert np.isnan(first).all()


def test_a_prompt_is_begun_beside_a_drawn_token() -> None:
    runner, single = _runner(), _runner()
    runner.begin([Span(0, [1, 2, 3], 0, 1), Span(1, [5, 6], 0, 0)], _draws(0.5))
    runner.begin([Span(0, [-1], 3, 1), Span(1, [7], 2, 1)], [])
    [token] = runner.end().tokens
    assert token is not None
    single.decode([Span(0, [1, 2, 3, token], 0, 1), Span(1, [5, 6], 0, 0)])
    again = single.decode([Span(2, [1, 2, 3, token], 0, 1), Span(1, [7], 2, 1)])
    assert (runner.end().logits == again).all()


def test_cells_of_open_steps_are_taken() -> None:
    runner = _runner(num_cells=2)
    runner.begin([Span(0, [1], 0, 1)], _draws(0.5))
    runner.begin([Span(0, [-1], 1, 1)], [])
    assert runner.cells_free == 0
    runner.end()
    runner.end()
    with pytest.raises(RuntimeError, match="out of cells"):
        runner.begin([Span(0, [1], 2, 1)], [])


def _third(runner: FakeRunner) -> None:
    runner.begin([Span(0, [-1], 2, 1)], [])
    runner.begin([Span(0, [-1], 3, 1)], [])


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (_third, "two steps are open"),
        (lambda r: r.decode([Span(2, [1], 0, 1)]), "decode was called"),
        (lambda r: r.draw(_draws(0.5)), "draw was called"),
        (lambda r: r.fork(0, 2, 1), "fork was called"),
        (lambda r: r.trim(0, 1), "trim was called"),
        (lambda r: r.free(1), "free was called"),
        (lambda r: r.begin([Span(0, [-2], 2, 1)], []), "there is not"),
        (lambda r: r.begin([Span(0, [VOCAB_SIZE], 2, 1)], []), "there is not"),
        (lambda r: r.begin([Span(0, [-1, 2], 2, 1)], []), "no other"),
        (lambda r: r.begin([Span(0, [1] * 600, 2, 1)], []), "more rows"),
        (lambda r: r.begin([Span(0, [1], 1, 1)], []), "holds 2 tokens"),
        (lambda r: r.begin([Span(0, [1], 2, 1), Span(0, [1], 3, 1)], []), "two spans"),
        (lambda r: r.begin([Span(0, [1], 2, 1)], _draws(0.1, 0.2)), "a row that"),
        (lambda r: r.begin([Span(s, [1], 0, 1) for s in range(2, 7)], []), "5 rows of logits"),
        (lambda r: r.begin([Span(0, [1], 2, 1)], _penalised(drawn=1)), "no draw 1"),
        (lambda r: r.begin([Span(0, [1], 2, 1)], _penalised(end=3)), "of 2 tokens 0:0:3"),
        (lambda r: r.begin([Span(0, [1], 2, 1)], _penalised(counted=-1)), "of 2 tokens 0:-1:2"),
        (lambda r: r.begin([Span(0, [1], 2, 1)], _penalised(VOCAB_SIZE)), "that there is not"),
    ],
)
def test_what_an_open_step_forbids(broken: Callable[[FakeRunner], object], says: str) -> None:
    runner = _runner()
    runner.decode([Span(0, [1], 0, 1), Span(1, [1], 0, 1)])
    runner.begin([Span(0, [1], 1, 1)], _draws(0.5))
    with pytest.raises(RuntimeError, match=says):
        broken(runner)


def test_nothing_is_ended_that_was_not_begun() -> None:
    with pytest.raises(RuntimeError, match="no step is open"):
        _runner().end()
    with pytest.raises(RuntimeError, match="1 rows of logits"):
        FakeRunner().begin([Span(0, [1], 0, 1)], [])


@given(st.data())
def test_draws_are_the_samplers(data: st.DataObject) -> None:
    """Also of a row that came before, and of one with a token that cannot be drawn."""
    runner, seed = _runner(), data.draw(st.integers(0, 9))
    logits = runner.decode([Span(0, data.draw(st.lists(st.integers(0, 255), min_size=1)), 0, 1)])
    logits[0, data.draw(st.integers(0, 255))] = -np.inf
    sampling = Sampling(temperature=data.draw(st.sampled_from([0.0, 0.3, 1.0, 1.7])), seed=seed)
    sampler = Sampler(sampling, seed, 0, VOCAB_SIZE)
    for position in range(data.draw(st.integers(1, 20))):
        draw = Draw(0, sampler.point(position), sampler.cuts(position) or ())
        assert runner.draw([draw]) == [sampler.sample(logits[0].copy(), position)]


def test_a_row_that_is_no_row_is_left_to_the_sampler() -> None:
    runner = _runner()
    logits = runner.decode([Span(0, [1, 2], 0, 2)])
    logits[0, 3], logits[1] = np.nan, -np.inf
    assert runner.draw([Draw(row, 0.5, ()) for row in (0, 1)]) == [None, None]


def test_slots_that_cannot_be_trimmed_give_back_what_their_spans_asked_for() -> None:
    """As the CPU runner's do, so the engine is held to that by tests on this one."""
    limits = replace(default_capabilities(), can_trim=False, can_give_back=4)
    runner = FakeRunner(limits)
    for count in (0, 5):
        with pytest.raises(RuntimeError, match=f"{count} tokens cannot be kept apart"):
            FakeRunner(limits).decode([Span(0, [1], 0, 1, returnable=count)])
    runner.decode([Span(0, [1, 2, 3, 4], 0, 1, returnable=2)])
    runner.decode([Span(0, [5], 4, 1, returnable=4)])
    with pytest.raises(RuntimeError, match="cannot give back 4 tokens"):
        runner.trim(0, 1)
    runner.fork(0, 1, 2)
    with pytest.raises(RuntimeError, match="cannot give back 1 tokens"):
        runner.trim(1, 1)
    runner.fork(0, 2, 0)  # which is an empty slot, whatever the other one could give back
    runner.decode([Span(2, [1, 2, 3], 0, 1, returnable=3)])
    runner.trim(2, 1)
