"""Where what a model hidden of tokens is kept, for its MTP layer."""

from segue.runners.cpu.slots.hidden_states import KEPT, HiddenStates

WIDTH, OWN = 32, 10**6  # where the step has its rows
ROW = 4 * WIDTH


def places(hidden: HiddenStates, slot: int, past: int, count: int) -> tuple[list[int], list[int]]:
    before = hidden.before(slot, past, count, OWN)
    return [*before], [*hidden.after(slot, past, count)]


def test_a_first_token_has_none_before_it_and_others_take_the_rows_of_the_step() -> None:
    hidden = HiddenStates(2, WIDTH)
    before, after = places(hidden, 1, 0, 3)
    assert before == [0, OWN, OWN + ROW]
    assert all(after)


def test_the_next_step_goes_on_from_what_the_last_one_kept() -> None:
    hidden = HiddenStates(2, WIDTH)
    for past, count in ((0, 1), (5, 3), (7, 40), (47, KEPT)):
        _, kept = places(hidden, 0, past, count)
        for length in range(max(1, count - KEPT + 1), count + 1):  # and if its last tokens go
            assert places(hidden, 0, past + length, 1)[0] == [kept[length - 1]]


def test_of_many_rows_the_last_are_kept_each_in_its_place() -> None:
    _, after = places(HiddenStates(2, WIDTH), 1, 3, 50)
    assert after[:-KEPT] == [0] * (50 - KEPT)
    assert len({*after[-KEPT:]}) == KEPT


def test_a_draft_leaves_what_was_hidden_before_it() -> None:
    """Its tokens, as many as there are places for, do not overwrite the row that the next step goes on from."""
    hidden = HiddenStates(1, WIDTH)
    [first] = places(hidden, 0, 20, 1)[0]
    drafted = [places(hidden, 0, 20 + i, 1)[1][0] for i in range(KEPT - 1)]
    assert first not in drafted


def test_a_fork_has_a_copy() -> None:
    hidden = HiddenStates(3, WIDTH)
    hidden._rows[0] = 1.0
    hidden.fork(0, 2)
    hidden._rows[0] = 2.0
    assert (hidden._rows[2] == 1.0).all()
    assert (hidden._rows[1] == 0.0).all()
