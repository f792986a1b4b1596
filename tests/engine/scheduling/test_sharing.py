"""What sequences share: prefixes in the cache, the prompt of several candidates."""

import pytest
from msgspec.structs import replace

from segue.runners.fake import FakeRunner
from segue.types import Infill, Prompt
from tests.engine.harness import Bench, ask


def test_a_shared_header_is_computed_once() -> None:
    bench = Bench(chunk_rows=64)
    header = "h" * 200
    prompts = [header + str(i) * 10 for i in range(8)]
    rows = 0
    bench.submit(ask(*prompts, max_tokens=1))
    while (batch := bench.scheduler.next_batch()) is not None:
        rows += sum(len(span.tokens) for span in batch.spans)
        bench.scheduler.commit(batch, bench.runner.decode(batch.spans))
    assert rows <= 210 + 7 * (10 + 32), "the others may start a little before the header is whole"


def test_scores_of_a_shared_header_are_the_same_cached_or_not() -> None:
    header = "header " * 20
    cold = [Bench().run(ask(header + t, max_tokens=0, prompt_logprobs=3))[0] for t in ("ab", "cd")]
    warm = Bench()
    warm_stories = [
        warm.run(ask(header + t, max_tokens=0, prompt_logprobs=3))[0] for t in ("ab", "cd")
    ]
    assert [s.prompted[0].scores for s in warm_stories] == [s.prompted[0].scores for s in cold]
    assert warm_stories[1].prompted[0].num_cached >= len(header) - 1


def test_cache_off_neither_reads_nor_fills() -> None:
    bench = Bench()
    bench.run(ask("hello there", use_cache=False))
    [again] = bench.run(ask("hello there"))
    assert again.prompted[0].num_cached == 0
    [third] = bench.run(ask("hello there", use_cache=False))
    assert third.prompted[0].num_cached == 0
    [salted] = bench.run(ask("hello there", cache_salt="mine"))
    assert salted.prompted[0].num_cached == 0


def test_a_ranked_infill_without_cache_leaves_no_cached_slots() -> None:
    bench = Bench()
    infill = Infill(suffix=Prompt(("ba, and é",)), mode="ranked")
    bench.run(ask("some text to go on with", infill=infill, use_cache=False, max_tokens=6))
    assert len(bench.scheduler._state.memory._cache) == 0
    cancelled = ask("some text to go on with", infill=infill, use_cache=False, max_tokens=6)
    bench.submit(cancelled)
    for _ in range(4):
        bench.step()
    bench.scheduler.cancel(cancelled.request_id)
    assert len(bench.scheduler._state.memory._cache) == 0


@pytest.mark.parametrize("can_trim", [True, False])
def test_one_slot_is_enough_for_the_cache(can_trim: bool) -> None:
    bench = Bench(num_slots=1, can_trim=can_trim)
    [first] = bench.run(ask("hello there", max_tokens=4))
    longer = "hello there" + first.texts[0][:3] + " and more"
    [again] = bench.run(ask(longer if not can_trim else "hello there", max_tokens=4))
    assert again.prompted[0].num_cached >= 10
    alone = Bench().run(ask(longer if not can_trim else "hello there", max_tokens=4))[0]
    assert again.essence == alone.essence


def test_a_slot_that_cannot_be_trimmed_is_no_prefix_once_it_has_grown() -> None:
    """Recurrent models: a prompt that extends a running one, which has drawn tokens since."""
    bench = Bench(can_trim=False)
    bench.submit(ask("hello", max_tokens=20))
    for _ in range(4):
        bench.step()
    [longer] = bench.run(ask("hello there", max_tokens=4))
    assert longer.essence == Bench().run(ask("hello there", max_tokens=4))[0].essence


def test_prompts_that_begin_alike_leave_a_checkpoint_where_they_part() -> None:
    """The second one that begins so is read in full, and the third from there on; also if it is the same again."""
    bench, header = Bench(can_trim=False), "h" * 100
    cached = []
    for prompt in (header + "abc", header + "def", header + "ghi", header + "def", header + "def"):
        [story] = bench.run(ask(prompt, max_tokens=4))
        cached.append(story.prompted[0].num_cached)
        assert story.essence == Bench().run(ask(prompt, max_tokens=4))[0].essence
        bench.scheduler.check()
    assert cached == [0, 0, 100, 100, 100]


def test_a_prompt_that_came_twice_is_not_read_again() -> None:
    bench = Bench(can_trim=False)
    stories = [bench.run(ask("p" * 50, max_tokens=4))[0] for _ in range(3)]
    assert [story.prompted[0].num_cached for story in stories] == [0, 0, 49]
    assert stories[0].essence == stories[2].essence


@pytest.mark.parametrize("num_before", [0, 1])
def test_a_shared_header_that_cannot_be_trimmed_is_computed_once(num_before: int) -> None:
    """Those that come while the first is being read make it stop where they part from it."""
    bench = Bench(can_trim=False, chunk_rows=64)
    prompts = ["h" * 200 + str(i) * 10 for i in range(8)]
    bench.submit(ask(prompts[0], max_tokens=1))
    for _ in range(num_before):
        bench.step()
    bench.submit(ask(*prompts[1:], max_tokens=1))
    bench.run()
    assert isinstance(bench.runner, FakeRunner)
    assert bench.runner.num_rows <= 210 + 7 * (10 + 32)


def test_checkpoints_take_no_slot_that_is_needed() -> None:
    bench, header = Bench(can_trim=False, num_slots=1), "h" * 100
    for end in "abc":
        [story] = bench.run(ask(header + end, max_tokens=4))
        assert story.essence == Bench().run(ask(header + end, max_tokens=4))[0].essence
        bench.scheduler.check()
    assert bench.scheduler.stats.preemptions == 0


def test_whole_prompts_with_scores_share_a_header_that_cannot_be_trimmed() -> None:
    """The checkpoint has a token less than the header, and the score of that token: its row is not computed again."""
    bench = Bench(can_trim=False)
    cached = []
    for end, num_top in (("ab", 1), ("cd", 1), ("ef", 1), ("ghi", 0), ("j", 2), ("ef", 1)):
        request = ask("h" * 100 + end, max_tokens=0, prompt_logprobs=num_top)
        [story] = bench.run(request)
        assert story.essence == Bench().run(request)[0].essence
        cached.append(story.prompted[0].num_cached)
        bench.scheduler.check()
    assert cached == [0, 0, 99, 99, 0, 99]
    [whole] = bench.run(ask("h" * 99 + "x", max_tokens=0, prompt_logprobs=1))
    assert whole.prompted[0].num_cached == 0, "another token follows"


def test_whole_prompts_with_scores_wait_for_a_header_that_is_being_scored() -> None:
    bench = Bench(can_trim=False, chunk_rows=64)
    prompts = ["h" * 200 + str(i) * 10 for i in range(8)]
    [story] = bench.run(ask(*prompts, max_tokens=0, prompt_logprobs=1))
    assert isinstance(bench.runner, FakeRunner)
    assert bench.runner.num_rows <= 210 + 7 * (11 + 32)
    [alone] = Bench().run(ask(*prompts, max_tokens=0, prompt_logprobs=1))
    assert story.essence == alone.essence


def test_candidates_share_a_prompt_that_cannot_be_trimmed() -> None:
    bench = Bench(can_trim=False, chunk_rows=512)
    [story] = bench.run(ask("p" * 1000, n=4, max_tokens=1))
    assert isinstance(bench.runner, FakeRunner)
    assert bench.runner.num_rows == 1000 + 3, "the last token is computed by each"
    assert story.essence == Bench().run(ask("p" * 1000, n=4, max_tokens=1))[0].essence


@pytest.mark.parametrize("can_trim", [True, False])
def test_candidates_without_cache_share_their_prompt(can_trim: bool) -> None:
    bench = Bench(can_trim=can_trim, chunk_rows=512)
    request = ask("p" * 100, "p" * 100, n=4, max_tokens=3, use_cache=False)
    [story] = bench.run(request)
    assert isinstance(bench.runner, FakeRunner)
    assert bench.runner.num_rows == 2 * (100 + 3 + 4 * 2), "the prompts share nothing"
    assert [each.num_cached for each in story.prompted.values()] == [0, 0]
    assert len(bench.scheduler._state.memory._cache) == 0
    assert story.essence == Bench().run(replace(request, use_cache=True))[0].essence


@pytest.mark.parametrize("can_trim", [True, False])
def test_candidates_that_ended_without_cache_leave_their_slots(can_trim: bool) -> None:
    """Their leader's stays only as long as one of them has still to read the prompt."""
    bench = Bench(can_trim=can_trim, num_slots=2)
    bench.submit(ask("hello there", n=4, max_tokens=1, use_cache=False))
    held = []
    while bench.step():
        memory = bench.scheduler._state.memory
        bench.scheduler.check()
        held.append(len(memory._cache.slots - memory._owned))
    assert held[-1] == 0
    assert max(held) <= 1
    cancelled = ask("hello there", n=2, use_cache=False)
    bench.submit(cancelled)
    bench.step()
    bench.scheduler.cancel(cancelled.request_id)
    assert len(bench.scheduler._state.memory._cache) == 0


def test_a_beginning_that_served_stays_while_others_come_and_go() -> None:
    bench, header = Bench(num_slots=4), "h" * 40
    for prompt in (f"{header}a", f"{header}b", *(f"{i}" * 40 for i in range(5))):
        bench.run(ask(prompt, max_tokens=2))
    story = bench.run(ask(f"{header}c", max_tokens=2))[0]
    assert story.prompted[0].num_cached >= len(header)
