import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.engine.request.draft import _MOST_INDEXED, Drafter


def test_repeats_what_followed_before() -> None:
    assert Drafter().draft([1, 2, 3, 4, 5, 6, 1, 2, 3], 2) == [4, 5]
    assert Drafter().draft([1, 2, 3, 4, 5], 4) == []


def test_a_text_that_repeats_its_end_goes_on_with_it() -> None:
    assert Drafter().draft([7, 1, 2, 1, 2, 1], 5) == [2, 1, 2, 1, 2]
    assert Drafter().draft([5, 5, 5, 5], 3) == [5, 5, 5]


def test_chances_follow_what_came_without_a_draft() -> None:
    """A text that copies its prompt, and one that always leaves what it began to copy."""
    prompt = list(range(100))
    copies, leaves = Drafter(100), Drafter(100)
    copied, left = [*prompt, 10, 11, 12], [*prompt]
    for step in range(40):
        copied.append(13 + step)
        left += [step, step + 1, step + 2, 200 + step]
        copies.chances(copied, 4)
        leaves.chances(left, 4)
    sure, unsure = copies.chances(copied, 4), leaves.chances([*left, 50, 51, 52], 4)
    assert min(sure) > 0.8
    assert max(unsure) < 0.1
    for chances in (sure, unsure):
        assert len(chances) == 4
        assert chances == sorted(chances, reverse=True)
    assert Drafter(100).chances([*prompt, 300, 301, 302], 4) == [], "there is no draft"


def test_a_token_that_was_foreseen_makes_the_next_one_likelier() -> None:
    drafter, prompt = Drafter(100), list(range(100))
    cold = drafter.chances([*prompt, 10, 11, 12], 1)
    warm = drafter.chances([*prompt, 10, 11, 12, 13], 1)
    assert warm[0] > 2 * cold[0]


def test_a_token_that_is_not_known_yet_may_be_another() -> None:
    drafter, tokens = Drafter(100), [*range(100), 10, 11, 12]
    later = drafter.chances(tokens, 4)[1:]
    assert drafter.chances(tokens, 3, 1) == pytest.approx(later)


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 8))
def test_a_draft_is_always_a_copy_from_the_text(tokens: list[int], count: int) -> None:
    """Indexing as the text grows finds the same as indexing it at once, and so do chances."""
    grown, once = Drafter(), Drafter()
    for end in range(len(tokens)):
        grown.draft(tokens[:end], count)
    draft = grown.draft(tokens, count)
    assert draft == once.draft(tokens, count)
    chances = grown.chances(tokens, count)
    assert chances == once.chances(tokens, count)
    assert len(draft) == len(chances)
    assert len(draft) in (0, count)
    if draft:
        gram = tokens[-3:]
        places = [i for i in range(len(tokens) - 3) if tokens[i : i + 3] == gram]
        text = [*tokens, *draft]
        assert any(text[i + 3 : i + 3 + len(draft)] == draft for i in places)


def test_a_long_prompt_is_indexed_step_by_step_and_once_for_all_candidates() -> None:
    prompt = [*range(1000), 1, 2, 3]
    first = Drafter(len(prompt))
    mate = Drafter(len(prompt), first)
    assert first.draft(prompt, 2) == [4, 5], "the beginning is known after one step"
    assert len(first._prompt._follows) <= _MOST_INDEXED
    for _ in range(4):
        mate.draft(prompt, 2)
    assert first._prompt is mate._prompt
    assert len(first._prompt._follows) >= 990, "either one goes on with it"
    assert first.draft([*prompt, 4, 9, 2, 3, 4], 1) == [9], "the latest place counts"
