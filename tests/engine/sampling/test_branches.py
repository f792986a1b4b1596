import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from segue.engine.sampling.branches import branch_off
from segue.engine.sampling.candidates import Candidates
from segue.engine.sampling.sampler import Sampler
from segue.engine.sampling.token_rules import TokenRules
from segue.engine.seam import Logits
from segue.types import Sampling

SIZE = 12


def row(*plausible: int) -> Logits:
    """Those tokens share the probability, the first with a little more than the next."""
    logits = np.full(SIZE, -20.0, np.float32)
    for place, token in enumerate(plausible):
        logits[token] = -0.1 * place
    return logits


def take(branch: int, *rows: Logits) -> list[int]:
    tokens, left = [], branch
    for logits in rows:
        token, rest = branch_off(Candidates(logits.copy()), left, (), is_given=False)
        tokens.append(token)
        left = rest or 0
    return tokens


def test_each_branch_begins_differently() -> None:
    assert [take(branch, row(5, 3, 8)) for branch in range(3)] == [[5], [3], [8]]


def test_where_one_token_is_sure_branches_part_later() -> None:
    assert [take(branch, row(4), row(1, 2)) for branch in range(2)] == [[4, 1], [4, 2]]


@given(st.lists(st.integers(1, 4), min_size=4, max_size=4))
def test_branches_are_the_paths_of_a_tree_each_once(widths: list[int]) -> None:
    rows = [row(*range(width)) for width in widths]
    paths = {tuple(take(branch, *rows)) for branch in range(int(np.prod(widths)))}
    assert len(paths) == np.prod(widths)


def test_a_branch_does_not_end_where_it_could_go_on() -> None:
    assert branch_off(Candidates(row(5, 3)), 1, {3}, is_given=False) == (5, 1)
    assert branch_off(Candidates(row(3)), 1, {3}, is_given=False) == (3, 1)
    assert branch_off(Candidates(row(5, 3)), 1, (), is_given=False) == (3, None)
    assert branch_off(Candidates(row(5)), 0, (), is_given=False) == (5, 0)


def test_a_token_that_was_given_is_left_only_where_it_is_unsure() -> None:
    sure = row(5)
    sure[3] = -3.0  # five percent
    assert branch_off(Candidates(sure.copy()), 1, (), is_given=False) == (3, None)
    assert branch_off(Candidates(sure), 1, (), is_given=True) == (5, 1)
    assert branch_off(Candidates(row(5, 3)), 1, (), is_given=True) == (3, 0)


def test_a_sampler_on_a_branch_still_knows_what_is_forbidden() -> None:
    sampler = Sampler(Sampling(temperature=0, logit_bias={3: -100.0}), 0, 1, SIZE, TokenRules())
    sampler.branch = 1
    assert sampler.sample(row(5, 3, 8), 0) == 8
    assert sampler.sample(row(5, 3, 8), 1) == 5, "the branch is spent: greedy from here on"
