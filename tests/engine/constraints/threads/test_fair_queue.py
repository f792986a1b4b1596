"""The order of masks, as pure logic."""

from segue.engine.constraints.threads.fair_queue import FairQueue, Lexer, MaskJob


def wanted(lexer: Lexer) -> MaskJob:
    return MaskJob(lexer, lambda: None)


def served(turns: FairQueue, costs: dict[Lexer, float], num_turns: int) -> list[Lexer]:
    """Who has its turns, if each lexer always wants another mask, and one thread of each kind finds them."""
    for lexer in costs:
        turns.put(wanted(lexer))
    order: list[Lexer] = []
    while len(order) < num_turns:
        turn = turns.take(is_slow=True)
        assert turn is not None
        order.append(turn.lexer)
        turns.end(turn, costs[turn.lexer])
        turns.put(wanted(turn.lexer))
    return order


def test_a_slow_lexer_never_has_a_turn_of_the_others() -> None:
    turns, slow, quick = FairQueue(), Lexer(is_slow=True), Lexer()
    turns.put(wanted(slow))
    assert not turns.has(is_slow=False)
    assert turns.take(is_slow=False) is None
    turns.put(wanted(quick))
    taken = turns.take(is_slow=False)
    assert taken is not None
    assert taken.lexer is quick
    assert turns.has(is_slow=True)


def test_what_becomes_slow_while_it_waits_waits_with_the_slow() -> None:
    turns, lexer = FairQueue(), Lexer()
    turns.put(wanted(lexer))
    lexer.is_slow = True
    assert turns.take(is_slow=False) is None
    assert turns.take(is_slow=True) is not None


def test_a_lexer_has_one_turn_at_a_time() -> None:
    turns, lexer, other = FairQueue(), Lexer(), Lexer()
    for each in (lexer, lexer, other):
        turns.put(wanted(each))
    first, second = turns.take(False), turns.take(False)
    assert first is not None
    assert second is not None
    assert (first.lexer, second.lexer) == (lexer, other)
    assert turns.take(False) is None
    turns.end(first, 0.1)
    third = turns.take(False)
    assert third is not None
    assert third.lexer is lexer


def test_time_is_shared_not_turns() -> None:
    """Six that take five seconds each, and one that takes a tenth: it gets a seventh of the time, not of the turns."""
    hostile = [Lexer(is_slow=True) for _ in range(6)]
    harmless = Lexer(is_slow=True)
    costs = {**dict.fromkeys(hostile, 5.0), harmless: 0.1}
    order = served(FairQueue(), costs, 500)
    had = {lexer: order.count(lexer) * cost for lexer, cost in costs.items()}
    assert max(had.values()) - min(had.values()) <= 5.0 + 1e-6
    assert order.count(harmless) > 6 * order.count(hostile[0])


def test_who_comes_later_gets_no_more_than_its_share() -> None:
    """A request a minute with a new grammar would always be first, if only its own time counted."""
    turns, old = FairQueue(), Lexer(is_slow=True)
    served(turns, {old: 1.0}, 100)
    new = Lexer(is_slow=True)
    turns.put(wanted(new))
    order: list[Lexer] = []
    while len(order) < 10:
        turn = turns.take(is_slow=True)
        assert turn is not None
        order.append(turn.lexer)
        turns.end(turn, 1.0)
        turns.put(wanted(turn.lexer))
    assert order.count(new) == order.count(old) == 5


def test_who_was_away_has_saved_up_nothing() -> None:
    turns, busy, away = FairQueue(), Lexer(is_slow=True), Lexer(is_slow=True)
    served(turns, {busy: 1.0}, 50)
    assert turns.take(is_slow=True) is not None  # of the busy one: it goes on
    turns.put(wanted(away))
    turn = turns.take(is_slow=True)
    assert turn is not None
    turns.end(turn, 1.0)
    assert away.had_s > 40.0


def test_what_waits_for_a_lexer_can_be_dropped() -> None:
    turns, lexer, other = FairQueue(), Lexer(), Lexer()
    asked = [wanted(lexer), wanted(other), wanted(lexer)]
    for each in asked:
        turns.put(each)
    assert turns.drop(lexer) == [asked[0], asked[2]]
    assert turns.take(False) is asked[1]
    assert turns.take(False) is None
