from hypothesis import given
from hypothesis import strategies as st

from segue.engine.request.draft import _MOST_INDEXED, Drafter


def test_repeats_what_followed_before() -> None:
    assert Drafter().draft([1, 2, 3, 4, 5, 6, 1, 2, 3], 2) == [4, 5]
    assert Drafter().draft([1, 2, 3, 4, 5], 4) == []


def test_bad_guesses_make_it_pause() -> None:
    drafter, tokens = Drafter(), [1, 2, 3, 4, 1, 2, 3]
    assert drafter.draft(tokens, 4)
    drafter.learn(4, 0)
    assert [bool(drafter.draft(tokens, 4)) for _ in range(3)] == [False, False, True]


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 8))
def test_a_draft_is_always_a_copy_from_the_text(tokens: list[int], limit: int) -> None:
    """Indexing as the text grows finds the same as indexing it at once."""
    grown = Drafter()
    for end in range(len(tokens)):
        grown.draft(tokens[:end], limit)
    draft = grown.draft(tokens, limit)
    assert draft == Drafter().draft(tokens, limit)
    assert len(draft) <= limit
    if draft:
        gram = tokens[-3:]
        places = [i for i in range(len(tokens) - 3) if tokens[i : i + 3] == gram]
        assert any(tokens[i + 3 : i + 3 + len(draft)] == draft for i in places)


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
