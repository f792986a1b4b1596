"""Who gets the rows of a step, and what is counted of them."""

import random
from dataclasses import replace

import pytest

from segue.engine.request.sequence import Sequence
from segue.engine.scheduling.turns.waiting import WaitingQueue
from segue.runners.fake import FakeRunner, default_capabilities
from segue.types import CompletionRequest, Sampling
from tests.engine.constraints.guided import regex
from tests.engine.harness import Bench, ask
from tests.support.waiting import wait_until

LITERAL = regex("0123456789 and so on " * 40)  # every token of it is forced
CHUNK_ROWS = 64


def held(number: int) -> CompletionRequest:
    return ask(f"{number}", max_tokens=800, constraint=LITERAL, sampling=Sampling(seed=number))


def step(made: Bench) -> None:
    """One step, with all masks found: one that is late, on a busy machine, leaves its request out of the step."""
    state = made.scheduler._state
    wait_until(lambda: not any(each.awaits_mask for each in (*state.running, *state.waiting)))
    made.step()


def bench(num_held: int) -> Bench:
    """So many are busy with forced tokens, up to 32 in a step. A step has room for all slots and a chunk."""
    limits = default_capabilities(num_slots=32, max_rows=CHUNK_ROWS + 32)
    made = Bench(FakeRunner(limits), chunk_rows=CHUNK_ROWS)
    for number in range(num_held):
        made.submit(held(number))
    for _ in range(3):
        step(made)
    return made


@pytest.mark.parametrize("num_held", [1, 3, 20])
def test_forced_tokens_delay_no_other_request(num_held: int) -> None:
    """They took all rows of a step, and of the next one too: who came later waited until their texts were over."""
    made = bench(num_held)
    plain = ask("plain", max_tokens=10, sampling=Sampling(seed=1, ignore_eos=True))
    made.submit(plain)
    for _ in range(10):
        step(made)
    assert made.stories[plain.request_id].done is not None
    made.run()
    alone = Bench().run(held(0))[0]
    assert all(s.texts == alone.texts for s in made.stories.values() if s.texts[0][:1] == "0")


@pytest.mark.parametrize("num_held", [1, 3, 20])
def test_forced_tokens_leave_half_a_chunk_to_prompts(num_held: int) -> None:
    made = bench(num_held)
    long = ask("long " * 100, max_tokens=0)
    made.submit(long)
    for _ in range(-(-500 // (CHUNK_ROWS // 2))):
        step(made)
    assert made.stories[long.request_id].done is not None


def test_forced_tokens_take_all_rows_that_nobody_else_needs() -> None:
    made = bench(3)
    assert isinstance(made.runner, FakeRunner)
    before = made.runner.num_rows
    step(made)
    assert made.runner.num_rows - before == CHUNK_ROWS + 32


def test_what_is_read_is_counted_once() -> None:
    """Also of a prompt that makes room for another key's: in the step that would have read more of it, or later."""
    num_preempted = 0
    for seed in range(80):
        chance = random.Random(seed)
        made = Bench(
            num_slots=chance.randint(3, 6), num_cells=chance.randint(110, 220), context_length=100
        )
        for _ in range(8):
            prompt = "y" * chance.choice([0, 20]) + chance.choice("abcd") * chance.randint(10, 70)
            made.submit(ask(prompt, max_tokens=0, tenant=chance.choice("aaabc")))
            if chance.random() < 0.5:
                made.step()
        made.run()
        stats = made.scheduler.stats
        num_preempted += stats.preemptions
        assert isinstance(made.runner, FakeRunner)
        assert stats.prefilled_tokens == made.runner.num_rows
        ended = [story.done for story in made.stories.values() if story.done is not None]
        assert stats.cached_tokens == sum(done.usage.cached_tokens for done in ended)
    assert num_preempted > 5


@pytest.mark.parametrize("num_tenants", [1, 4])
def test_a_long_queue_costs_a_full_server_nothing(
    num_tenants: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step looked at 256 of those that wait, though none of them could start: that took longer than the step."""
    made = Bench(num_slots=8)
    for number in range(300):
        sampling = Sampling(seed=number, ignore_eos=True)
        tenant = str(number % num_tenants)
        made.submit(ask(f"{number}", max_tokens=20, tenant=tenant, sampling=sampling))
    made.step()
    usual, looked_at = WaitingQueue.popleft, 0

    def popleft(waiting: WaitingQueue) -> Sequence:
        nonlocal looked_at
        looked_at += 1
        return usual(waiting)

    monkeypatch.setattr(WaitingQueue, "popleft", popleft)
    for _ in range(10):
        made.step()
    assert made.scheduler.stats.running == 8
    assert looked_at <= 10 * (1 + num_tenants)
    late = ask("late", max_tokens=1, tenant="late")
    made.submit(late)
    made.step()
    assert made.stories[late.request_id].done is not None
    made.run()
    assert all(story.done is not None for story in made.stories.values())


def test_one_that_is_preempted_takes_its_draft_along() -> None:
    """Else the step would count as one with drafts, and what it takes would be learned as their cost."""
    bench = Bench()
    for number in range(2):
        bench.submit(ask(f"{number} of two", max_tokens=30))
    for _ in range(3):
        bench.step()
    planner, running = bench.scheduler._planner, bench.scheduler._state.running
    planner._text_drafts.plan = lambda decoding: {each: [97, 98] for each in decoding}  # type: ignore[method-assign]
    batch = planner.next_batch()
    assert batch is not None
    assert (batch.num_rows, batch.num_drafted) == (6, 4)
    for num_left in (1, 0):
        planner._preempt(batch, running[-1])
        assert (batch.num_rows, batch.num_drafted) == (3 * num_left, 2 * num_left)


@pytest.mark.parametrize("cells_per_block", [1, 8])
def test_a_full_cache_makes_room_for_drafts(cells_per_block: int) -> None:
    """They took only what was free: nothing, once cached prefixes had filled the memory."""
    num_steps = []
    for num_before in (0, 60):
        limits = default_capabilities(num_cells=1024, context_length=512, num_slots=64)
        made = Bench(FakeRunner(replace(limits, cells_per_block=cells_per_block)))
        made.run(*(ask(f"{i} and more of it", max_tokens=10) for i in range(num_before)))
        assert (made.runner.cells_free < 200) == (num_before > 0)
        num_steps.append(-made.num_steps)
        made.run(ask("0", max_tokens=400, constraint=LITERAL, sampling=Sampling(seed=1)))
        num_steps[-1] += made.num_steps
    assert num_steps[1] <= num_steps[0] + 1
