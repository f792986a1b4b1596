"""Long prompts leave rows to others, and lose none that others do not need."""

import pytest

from segue.engine.scheduling.long_prompts import LongPrompts
from segue.runners.fake import FakeRunner
from segue.types import CompletionRequest, Sampling
from tests.engine.harness import Bench, ask

CHUNK = 64
LENGTH = 40 * CHUNK


def bench(num_cells: int = 20_000) -> Bench:
    return Bench(
        context_length=4000,
        num_cells=num_cells,
        max_rows=CHUNK + 32,
        num_slots=32,
        chunk_rows=CHUNK,
    )


def long(name: str = "a", tenant: str = "") -> CompletionRequest:
    return ask(name + "y" * (LENGTH - 1), max_tokens=1, tenant=tenant)


def short(name: str = "b", tenant: str = "", max_tokens: int = 1) -> CompletionRequest:
    sampling = Sampling(seed=1, ignore_eos=True)
    return ask(name * 20, max_tokens=max_tokens, tenant=tenant, sampling=sampling)


def is_done(made: Bench, request: CompletionRequest) -> bool:
    return made.stories[request.request_id].done is not None


def steps_to(made: Bench, request: CompletionRequest) -> int:
    start = made.num_steps
    while not is_done(made, request):
        assert made.step()
    return made.num_steps - start


@pytest.mark.parametrize("tenant", ["", "other"])
def test_a_short_prompt_does_not_wait_for_a_long_one(tenant: str) -> None:
    """Not for those that were there before either, read or waiting."""
    made = bench()
    for name in "abc":
        made.submit(long(name))
    made.step()
    later = short(tenant=tenant)
    made.submit(later)
    assert steps_to(made, later) == 1


@pytest.mark.parametrize(("num_prompts", "n"), [(300, 1), (1, 300), (3, 128)])
def test_nor_for_a_request_with_many_prompts_or_candidates(num_prompts: int, n: int) -> None:
    """They wait for rows, or for the prompt that one of them reads: those that come later are still looked at."""
    made = bench()
    prompts = [f"{number:03}" + "x" * LENGTH for number in range(num_prompts)]
    made.submit(ask(*prompts, n=n, max_tokens=1))
    made.step()
    later = short()
    made.submit(later)
    assert steps_to(made, later) == 1


def test_nor_for_those_of_several_keys() -> None:
    made = bench()
    for tenant in "abc":
        made.submit(long(tenant, tenant))
    made.step()
    later = short(tenant="d")
    made.submit(later)
    assert steps_to(made, later) <= 5


def test_alone_a_long_prompt_gets_all_rows() -> None:
    made, only = bench(), long()
    made.submit(only)
    assert steps_to(made, only) == LENGTH // CHUNK


def test_one_long_prompt_is_read_after_the_other() -> None:
    made, both = bench(), [long("a"), long("b")]
    for request in both:
        made.submit(request)
    assert steps_to(made, both[0]) == LENGTH // CHUNK
    assert steps_to(made, both[1]) == LENGTH // CHUNK


def test_a_long_prompt_gets_half_of_the_rows_however_many_short_ones_come() -> None:
    made, only = bench(), long()
    made.submit(only)
    num_steps = 0
    while not is_done(made, only):
        for number in range(4):
            made.submit(short(f"{num_steps}-{number} "[:4]))
        made.step()
        num_steps += 1
    assert LENGTH // CHUNK < num_steps <= 2 * LENGTH // CHUNK + 1
    made.run()


def test_no_row_is_lost() -> None:
    made, first = bench(), long()
    for request in (first, short("b"), long("c"), short("d")):
        made.submit(request)
    made.run()
    assert isinstance(made.runner, FakeRunner)
    assert made.num_steps <= -(-made.runner.num_rows // CHUNK) + 2


@pytest.mark.parametrize(("num_spare", "is_first"), [(300, True), (50, False)])
def test_what_starts_beside_one_leaves_it_its_memory(num_spare: int, is_first: bool) -> None:
    """Else it would have to go again when the long prompt needs its cells, and begin, and go again."""
    made, only, others = bench(LENGTH + num_spare), long(), [short(n, max_tokens=8) for n in "bcd"]
    made.submit(only)
    made.step()
    for request in others:
        made.submit(request)
    steps_to(made, others[-1])
    assert is_done(made, only) != is_first
    made.run()
    assert made.scheduler.stats.preemptions == 0


def test_rows_of_one_step() -> None:
    rows = LongPrompts(chunk_rows=64)
    rows.begin_step([], 64)
    assert rows.limit("a", 128, 64) == 64, "not long"
    assert not rows.has_left_rows
    assert rows.limit("a", 129, 64) == 32
    assert rows.has_left_rows
    rows.read("a", 129, 20)
    assert rows.limit("a", 500, 44) == 12, "of the same tenant"
    assert rows.limit("b", 500, 44) == 22
    assert rows.limit("c", 500, 10) == 8, "an eighth of a chunk"
    rows.end()
    assert rows.limit("a", 500, 44) == 44
    assert rows.num_cells == 0
