from collections import deque
from typing import NamedTuple, cast

from hypothesis import given
from hypothesis import strategies as st

from segue.engine.request.sequence import Sequence
from segue.engine.scheduling.turns.waiting import WaitingQueue
from tests.engine.harness import Bench, ask


class Item(NamedTuple):
    request_id: str
    number: int
    priority: int = 0

    @property
    def tenant(self) -> str:
        return self.request_id[0]


def queue(*items: Item) -> WaitingQueue:
    made = WaitingQueue(lambda s: s.request_id[0], lambda s: cast("Item", s).priority)
    made.extend(cast("list[Sequence]", items))
    return made


def drained(waiting: WaitingQueue) -> list[str]:
    return [waiting.popleft().request_id for _ in range(len(waiting))]


def test_tenants_take_turns() -> None:
    waiting = queue(*(Item(f"a{i}", i) for i in range(4)), Item("b0", 0), Item("c0", 0))
    assert drained(waiting) == ["a0", "b0", "c0", "a1", "a2", "a3"]
    assert not waiting


def test_what_is_put_back_comes_next() -> None:
    waiting = queue(Item("a0", 0), Item("a1", 1), Item("b0", 0))
    first = waiting.popleft()
    waiting.appendleft(first)
    assert drained(waiting) == ["a0", "b0", "a1"]


def test_dropping_a_request_leaves_the_others_in_order() -> None:
    waiting = queue(Item("a0", 0), Item("a1", 1), Item("b0", 0), Item("a0", 2))
    waiting.drop("a0")
    assert drained(waiting) == ["a1", "b0"]


def test_the_lower_priority_comes_first_within_a_tenant() -> None:
    waiting = queue(
        Item("a0", 0, 5), Item("a1", 1), Item("b0", 0, 9), Item("a2", 2, -5), Item("a3", 3)
    )
    assert drained(waiting) == ["a2", "b0", "a1", "a3", "a0"]


def test_what_is_put_back_stays_behind_what_matters_more() -> None:
    waiting = queue(Item("a0", 0), Item("a1", 1))
    waiting.appendleft(Item("a2", 2, 7))  # type: ignore[arg-type]
    waiting.appendleft(Item("a3", 3))  # type: ignore[arg-type]
    assert drained(waiting) == ["a3", "a0", "a1", "a2"]


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from([0, 0, 4, -4]))),
    st.lists(st.booleans(), max_size=20),
)
def test_nothing_is_lost_and_each_tenant_keeps_its_order(
    pairs: list[tuple[str, int]], moves: list[bool]
) -> None:
    items = [Item(f"{tenant}{i}", i, priority) for i, (tenant, priority) in enumerate(pairs)]
    waiting = queue(*items)
    for is_put_back in moves:
        if not waiting:
            break
        sequence = waiting.popleft()
        if is_put_back:
            waiting.appendleft(sequence)
        else:
            items.remove(cast("Item", sequence))
    assert sorted(s.request_id for s in waiting) == sorted(item.request_id for item in items)
    left = deque(drained(waiting))
    for tenant in "abc":
        own = [name for name in left if name[0] == tenant]
        expected = sorted((each.priority, each.number) for each in items if each.tenant == tenant)
        assert own == [f"{tenant}{number}" for _, number in expected]


def test_one_tenants_crowd_does_not_keep_another_out() -> None:
    """A single slot, fifty requests of one key, then one of another: it is second, not last."""
    bench = Bench(num_slots=1, num_cells=64, context_length=32)
    crowd = [ask(f"crowd {i}", tenant="many", max_tokens=1) for i in range(50)]
    other = ask("other", tenant="few", max_tokens=1)
    for request in (*crowd, other):
        bench.submit(request)
    order: list[str] = []
    while bench.step():
        order += [i for i, s in bench.stories.items() if s.done is not None and i not in order]
    assert order.index(other.request_id) <= 1
    assert len(order) == 51
