"""What a draw is told is checked before kernels see it, and nothing of the draw before is left."""

from typing import Any

import numpy as np
import pytest

from segue.engine.sampling.sampler import Sampler
from segue.engine.seam import Changes, Cut, Draw, MirostatState, Repeats, Span
from segue.runners.cpu.products.processor import possible
from segue.runners.cpu.runner import CpuRunner
from segue.types import Sampling
from tests.runners.cpu.draws.alone import Alone, drawer, some_row

PENALTIES = Cut("penalties", 0.0, 0)


def test_a_nucleus_and_a_greedy_choice_of_a_whole_vocabulary_are_not_left_to_the_sampler() -> None:
    compiled, logits = drawer(possible()[0].name, 20_000)
    logits[0] = logits[1] = some_row("peaked", 20_000, 3)
    nucleus, greedy = (Cut("top_p", 0.9, 0),), (Cut("top_k", 0.0, 1),)
    first, second = compiled.draw([Draw(0, 0.5, nucleus), Draw(1, 0.5, greedy)])
    assert first == second == int(logits[0].argmax())


def test_rows_and_cuts_are_checked_before_kernels_see_them() -> None:
    compiled, _ = drawer(possible()[0].name, 64)
    with pytest.raises(ValueError, match="no row 2"):
        compiled.draw([Draw(2, 0.5, ())])
    with pytest.raises(ValueError, match="12 cuts"):
        compiled.draw([Draw(0, 0.5, (Cut("scale", 1.0, 0),) * 12)])
    with pytest.raises(ValueError, match="act once"):
        compiled.draw([Draw(0, 0.5, (PENALTIES, Cut("top_k", 0.0, 9), PENALTIES))])
    with pytest.raises(ValueError, match="no version 3"):
        compiled.draw([Draw(0, 0.5, (), feedback=MirostatState(3, 5.0, 0.1, 10.0))])
    with pytest.raises(ValueError, match="no draw 0"):
        compiled.draw([Draw(0, 0.5, (), feedback=MirostatState(2, 5.0, 0.1, 10.0, 0))])
    with pytest.raises(ValueError, match="3 draws"):
        compiled.draw([Draw(0, 0.5, ())] * 3)


def test_a_row_that_a_draw_changes_has_no_other_draw() -> None:
    compiled, logits = drawer(possible()[0].name, 64)
    logits[:] = 0.0
    plain = Draw(0, 0.5, ())
    change = Changes(np.array([3]), np.ones(1, np.float32))
    changing, biased = plain._replace(changes=change), plain._replace(biases=change)
    for draws in ([plain, changing], [changing, plain], [changing, changing], [biased, plain]):
        with pytest.raises(ValueError, match="row 0 is changed by one draw and has 2"):
            compiled.draw(draws)
    assert compiled.draw([plain, plain]) == [32, 32]
    assert compiled.draw([changing, plain._replace(row=1)]) == [31, 32]


def test_a_record_without_a_list_has_none_of_the_draw_before() -> None:
    compiled, logits = drawer(possible()[0].name, 64)
    logits[0], logits[0, 5], greedy = 0.0, 1.0, (Cut("top_k", 0.0, 1),)
    few = Changes(np.empty(0, np.int64), np.empty(0, np.float32), np.array([7, 9]))
    found = [compiled.draw([Draw(0, 0.5, greedy, changes)]) for changes in (few, None, few)]
    assert found == [[7], [5], [7]]


@pytest.mark.parametrize(
    ("only", "said"),
    [
        (np.array([3, 64]), "the model does not have"),
        (np.array([-1, 3]), "the model does not have"),
        (np.array([3, 3]), "ascend"),
        (np.array([4, 3]), "ascend"),
        (np.array([], np.int64), "one at least"),
        (np.array([3], np.int32), "int64"),
        (np.arange(8)[::2], "without gaps"),
    ],
)
def test_a_list_is_checked_before_kernels_see_it(only: Any, said: str) -> None:
    compiled, logits = drawer(possible()[0].name, 64)
    logits[:] = 0.0
    changes = Changes(np.empty(0, np.int64), np.empty(0, np.float32), only)
    with pytest.raises(ValueError, match=said):
        compiled.draw([Draw(0, 0.5, (), changes)])
    assert compiled.draw([Draw(0, 0.5, ())]) != [None]


@pytest.mark.parametrize(
    ("ids", "added", "said"),
    [
        (np.array([64]), np.zeros(1, np.float32), "token that the model does not have"),
        (np.array([3, -1]), np.zeros(2, np.float32), "token that the model does not have"),
        (np.array([3, 4]), np.zeros(1, np.float32), "as many"),
        (np.array([3], np.int32), np.zeros(1, np.float32), "int64"),
        (np.array([3]), np.zeros(1), "float32"),
        (np.arange(8)[::2], np.zeros(4, np.float32), "without gaps"),
        (np.zeros(65, np.int64), np.zeros(65, np.float32), "at most as long"),
    ],
)
def test_changes_are_checked_before_kernels_see_them(ids: Any, added: Any, said: str) -> None:
    compiled, logits = drawer(possible()[0].name, 64)
    logits[:] = 0.0
    for draw in (
        Draw(0, 0.5, (), Changes(ids, added)),
        Draw(0, 0.5, (), biases=Changes(ids, added)),
    ):
        with pytest.raises(ValueError, match=said):
            compiled.draw([draw])
    assert compiled.draw([Draw(0, 0.5, ())]) != [None]


def test_a_record_without_changes_has_none_of_the_draw_before() -> None:
    compiled, logits = drawer(possible()[0].name, 64)
    logits[0], logits[0, 5], greedy = 0.0, 1.0, (Cut("top_k", 0.0, 1),)
    ban = Changes(np.array([5]), np.array([-np.inf], np.float32))
    found = [compiled.draw([Draw(0, 0.5, greedy, changes)]) for changes in (ban, None, ban)]
    assert found == [[0], [5], [0]]


def test_biases_act_where_the_cuts_name_them() -> None:
    """And a record without them has none of the draw before."""
    compiled, logits = drawer(possible()[0].name, 64)
    logits[0], logits[0, 5], logits[0, 7] = 0.0, 2.0, 1.0
    ban = Changes(np.array([5]), np.array([-np.inf], np.float32))
    two, one = (Cut("top_k", 0.0, keep) for keep in (2, 1))
    bias = Cut("logit_bias", 0.0, 0)
    late, early, unnamed = (Draw(0, 0.5, cuts) for cuts in ((two, bias, one), (bias, one), (one,)))
    for draw, wanted in ((late, 7), (early, 7), (unnamed, 5)):
        draws = [draw._replace(biases=biases) for biases in (ban, None, ban)]
        assert [compiled.draw([each]) for each in draws] == [[wanted], [5], [wanted]]


# --- tokens that occurred ---


def _repeats(*tokens: int, **fields: Any) -> Repeats:
    seen = np.array(tokens, np.int64)
    return Repeats(seen, 0, 0, seen.size, 2.0, 0.5, 0.25)._replace(**fields)


@pytest.mark.parametrize(
    ("repeats", "said"),
    [
        (_repeats(1, 2, end=3), "of 2 tokens"),
        (_repeats(1, 2, first=-1), "of 2 tokens"),
        (_repeats(1, 2, first=1), "of 2 tokens"),
        (_repeats(1, 2, counted=2, end=1), "of 2 tokens"),
        (_repeats(1, 2, drawn=0), "no draw 0"),
        (_repeats(tokens=np.array([3], np.int32)), "int64"),
        (_repeats(tokens=np.zeros((2, 2), np.int64)), "a row of"),
        (_repeats(tokens=np.arange(8)[::2]), "without gaps"),
    ],
)
def test_repeats_are_checked_before_kernels_see_them(repeats: Repeats, said: str) -> None:
    compiled, logits = drawer(possible()[0].name, 64)
    logits[:] = 0.0
    with pytest.raises(ValueError, match=said):
        compiled.draw([Draw(0, 0.5, (PENALTIES,), None, repeats)])
    assert compiled.draw([Draw(0, 0.5, ())]) != [None]


def test_repeats_may_name_the_draws_of_the_step_before_only() -> None:
    first, second = Alone(possible()[0].name, 64), Alone(possible()[0].name, 64)
    greedy = Draw(0, 0.5, (PENALTIES, Cut("top_k", 0.0, 1)))
    first.logits[0, 9] = second.logits[0, 9] = 1.0
    assert first.draw([greedy]) == [9]
    assert second.draw([greedy._replace(repeats=_repeats(drawn=0))], first) == [0]
    for number in (-1, 1, 2):
        with pytest.raises(ValueError, match=f"no draw {number}"):
            second.draw([greedy._replace(repeats=_repeats(drawn=number))], first)


def test_a_row_that_a_draw_penalises_has_no_other_draw() -> None:
    compiled, _ = drawer(possible()[0].name, 64)
    plain = Draw(0, 0.5, ())
    with pytest.raises(ValueError, match="row 0 is changed by one draw and has 2"):
        compiled.draw([plain, plain._replace(repeats=_repeats(1))])


def test_a_record_without_repeats_has_none_of_the_draw_before() -> None:
    compiled, logits = drawer(possible()[0].name, 64)
    logits[0], logits[0, 5] = 0.0, 1.0
    greedy = Draw(0, 0.5, (PENALTIES, Cut("top_k", 0.0, 1)))
    seen = greedy._replace(repeats=_repeats(5, 5))
    assert [compiled.draw([each]) for each in (seen, greedy, seen)] == [[0], [5], [0]]


def test_a_team_draws_all_rows_of_a_step(runner: CpuRunner) -> None:
    prompt = [5, 9, 3, 7, 11, 2, 8, 4, 6]
    logits = runner.decode([Span(0, prompt, 0, len(prompt))])
    samplers = [
        Sampler(Sampling(temperature=0.9, top_p=0.8), 1, i, logits.shape[1])
        for i in range(len(prompt))
    ]
    draws = [Draw(i, each.point(0), each.cuts(0) or ()) for i, each in enumerate(samplers)]
    found = runner.draw(draws)
    assert found == [each.sample(logits[i].copy(), 0) for i, each in enumerate(samplers)]
    again = runner.decode([Span(1, prompt, 0, len(prompt))])
    assert again.tobytes() == logits.tobytes(), "a step after draws runs its own program"
