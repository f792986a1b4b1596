"""Who loses its slot: what matters least to the tenant whose turn it is."""

from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.engine.request.sequence import Sequence
from segue.engine.scheduling.turns.victims import Victims
from segue.types import CompletionRequest
from tests.engine.harness import Bench, ask


class Item(NamedTuple):
    tenant: str
    priority: int
    number: int


def victims(running: list[Item]) -> Victims:
    return Victims(
        cast("list[Sequence]", running),
        lambda s: cast("Item", s).tenant,
        lambda s: cast("Item", s).priority,
    )


def items(pairs: list[tuple[str, int]]) -> list[Item]:
    return [Item(tenant, priority, i) for i, (tenant, priority) in enumerate(pairs)]


running = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-3, 3)), min_size=1).map(items)


@given(running)
def test_the_least_important_of_the_tenant_that_started_last(running: list[Item]) -> None:
    victim = cast("Item", victims(running).next)
    own = [item for item in running if item.tenant == running[-1].tenant]
    assert victim in own
    assert all((item.priority, item.number) <= (victim.priority, victim.number) for item in own)


@given(running)
def test_whose_turn_it_is_does_not_depend_on_priorities(running: list[Item]) -> None:
    plain = [item._replace(priority=0) for item in running]
    assert cast("Item", victims(plain).next) == plain[-1]
    for tenant in "abcd":
        one, other = victims(running).for_share(tenant), victims(plain).for_share(tenant)
        assert (one is None) == (other is None)
        if one is not None:
            assert cast("Item", one).tenant == cast("Item", other).tenant


@given(running)
def test_the_oldests_tenant_keeps_its_most_important_one(running: list[Item]) -> None:
    """So there is one that always goes on."""
    first = running[0].tenant
    best = min(running, key=lambda item: (item.tenant != first, item.priority, item.number))
    if len(running) > 1:
        assert cast("Item", victims(running).next) != best
    for tenant in "abcd":
        assert cast("Item", victims(running).for_share(tenant)) != best


CROWDED: dict[str, Any] = {"num_slots": 4, "num_cells": 96, "context_length": 64}


@st.composite
def crowds(draw: st.DrawFn) -> list[CompletionRequest]:
    lengths = st.integers(1, 45)
    return [
        ask(
            "x" * draw(lengths),
            max_tokens=draw(st.sampled_from([1, 9, 18])),
            n=draw(st.sampled_from([1, 1, 3])),
            tenant=draw(st.sampled_from(["", "", "a", "b"])),
            priority=draw(st.sampled_from([0, 0, 3, -7, 2**63 - 1, -(2**63)])),
        )
        for _ in range(draw(st.integers(1, 9)))
    ]


@settings(max_examples=25, deadline=None)
@given(crowds(), st.sampled_from([6, 64]))
def test_priorities_change_no_answer_and_lose_nobody(
    asked: list[CompletionRequest], chunk_rows: int
) -> None:
    """In a memory that holds two of them: some are preempted, and all are answered as alone."""
    crowd = Bench(chunk_rows=chunk_rows, has_priorities=True, **CROWDED)
    together = crowd.run(*asked)
    for request, story in zip(asked, together, strict=True):
        alone = Bench(has_priorities=True, **CROWDED).run(request)[0]
        assert story.essence == alone.essence


def ends(bench: Bench, asked: list[CompletionRequest]) -> list[int]:
    """The numbers of the requests, in the order of their ends."""
    for request in asked:
        bench.submit(request)
    order: list[str] = []
    while bench.step():
        order += [i for i, s in bench.stories.items() if s.done is not None and i not in order]
    names = [request.request_id for request in asked]
    return [names.index(name) for name in order]


def test_one_by_one_they_end_by_priority_then_as_they_came() -> None:
    priorities = [4, 0, -2, 4, -2, 0, 9]
    asked = [ask(f"one {i}", max_tokens=2, priority=p) for i, p in enumerate(priorities)]
    bench = Bench(has_priorities=True, num_slots=1, num_cells=64, context_length=32)
    assert ends(bench, asked) == sorted(range(len(asked)), key=lambda i: (priorities[i], i))


@pytest.mark.parametrize("priority", [5, -5])
def test_what_matters_more_keeps_its_memory(priority: int) -> None:
    """Two that grow until only one fits: the younger one gives way, unless the older one matters less."""
    asked = [ask("x" * 10, max_tokens=40, priority=p) for p in (0, priority)]
    bench = Bench(has_priorities=True, num_slots=4, num_cells=70, context_length=64)
    assert ends(bench, asked) == ([0, 1] if priority > 0 else [1, 0])
    assert bench.scheduler.stats.preemptions > 0


def test_no_key_pushes_another_aside_by_priority() -> None:
    """A crowd of one key, of the highest importance, and one request of another, of the least: it comes second."""
    crowd = [ask(f"crowd {i}", tenant="many", max_tokens=1, priority=-99) for i in range(20)]
    bench = Bench(has_priorities=True, num_slots=1, num_cells=64, context_length=32)
    other = ask("other", tenant="few", max_tokens=1, priority=99)
    assert ends(bench, [*crowd, other]).index(20) <= 1
