import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.engine.scheduling.batch import Batch
from segue.engine.scheduling.scheduler import _kind
from segue.engine.seam import Logits, Span
from segue.runners.fake import BOS, FakeRunner, FakeVocab, default_capabilities
from segue.types import (
    CompletionRequest,
    Delta,
    Infill,
    Progress,
    Prompt,
    Repetition,
    Sampling,
    Truncation,
)
from tests.engine.harness import Bench, ask, ticking
from tests.engine.scheduling.ahead_runner import arrive
from tests.engine.scheduling.guesses import guess, texts


def test_one_request_ends_with_all_its_events() -> None:
    [story] = Bench().run(ask("hello", max_tokens=5))
    assert story.done is not None
    assert story.done.usage.prompt_tokens == 5
    assert story.done.usage.completion_tokens == 5
    assert len(story.tokens[0]) == 5
    assert (story.finished[0].reason, story.finished[0].cause) == ("length", "max_tokens")
    assert [type(e).__name__ for e in story.events[:2]] == ["Prompted", "Delta"]


def test_choices_are_prompt_major_and_differ() -> None:
    [story] = Bench().run(ask("ab", "cd", n=3, max_tokens=12))
    assert set(story.texts) == set(range(6))
    assert len(set(story.texts.values())) == 6
    [again] = Bench().run(ask("ab", "cd", n=3, max_tokens=12))
    assert again.texts == story.texts


def test_a_batch_of_prompts_is_the_same_as_each_alone() -> None:
    [both] = Bench().run(ask("ab", "cd", max_tokens=12))
    singles = [Bench().run(ask(p, max_tokens=12))[0].texts[0] for p in ("ab", "cd")]
    assert [both.texts[0], both.texts[1]] == singles


def test_max_tokens_zero_reads_the_prompt_and_generates_nothing() -> None:
    [story] = Bench().run(ask("hello", max_tokens=0, n=2, prompt_logprobs=1, echo=True))
    assert story.done is not None
    assert story.done.usage.completion_tokens == 0
    assert set(story.finished) == {0, 1}
    assert story.prompted[0].text == "hello"
    assert len(story.prompted[0].scores or ()) == 5


def test_until_the_context_is_full() -> None:
    runner = FakeRunner(default_capabilities(context_length=20), script=b"x")
    [story] = Bench(runner).run(ask("hello", max_tokens=None, sampling=Sampling(temperature=0)))
    assert story.texts[0] == "x" * 15
    assert story.finished[0].cause == "context"


def test_best_of_returns_the_likeliest_and_counts_all() -> None:
    [all_six] = Bench().run(ask("ab", n=6, max_tokens=8, logprobs=0))
    means = {
        c: np.mean([s.logprob for s in scores if s.logprob is not None])
        for c, scores in all_six.scores.items()
    }
    ranked = sorted(means, key=lambda c: -means[c])
    [best] = Bench().run(ask("ab", n=2, best_of=6, max_tokens=8))
    assert [best.texts[0], best.texts[1]] == [all_six.texts[c] for c in ranked[:2]]
    assert best.done is not None
    assert best.done.usage.completion_tokens == 48


def test_a_long_prompt_delays_the_others_by_one_chunk_only() -> None:
    bench = Bench(chunk_rows=16)
    bench.submit(ask("hi", max_tokens=50))
    bench.step()
    bench.submit(ask("z" * 1000, max_tokens=1))
    for _ in range(40):
        batch = bench.scheduler.next_batch()
        assert batch is not None
        rows = sum(len(span.tokens) for span in batch.spans)
        assert rows <= 17
        assert len(batch.spans[0].tokens) == 1, "the running stream is in every step"
        bench.scheduler.commit(batch, bench.runner.decode(batch.spans))


def test_cancel_frees_the_slot_and_keeps_the_prefix() -> None:
    bench = Bench(chunk_rows=16)
    request = ask("p" * 100, max_tokens=50)
    bench.submit(request)
    for _ in range(3):
        bench.step()
    stats, limits = bench.scheduler.stats, bench.capabilities
    assert (stats.running, stats.slots_used, stats.slots_total) == (1, 1, limits.num_slots)
    cells = (stats.cells_used, stats.cells_running, stats.cells_total)
    assert (*cells, stats.steps) == (48, 48, limits.num_cells, 3)
    for _ in range(2):  # its client may be told of the end too late
        bench.scheduler.cancel(request.request_id)
    bench.scheduler.check()
    assert bench.scheduler.is_idle
    stats = bench.scheduler.stats
    assert (stats.running, stats.cancelled, stats.cells_used, stats.cells_running) == (0, 1, 48, 0)
    [again] = bench.run(ask("p" * 100, max_tokens=1))
    assert again.prompted[0].num_cached == 48


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, "plain"),
        ({"draws": {None: None}}, "begun"),
        ({"draws": {None: None}, "is_ahead": True}, "plain"),
        ({"num_drafted": 1}, "drafted"),
        ({"has_proposals": True, "draws": {None: None}}, "drafted"),
        ({"has_proposals": True, "is_catching_up": True}, "catching up"),
    ],
    ids=str,
)
def test_times_of_unlike_steps_are_not_compared(fields: dict[str, Any], kind: str) -> None:
    assert _kind(Batch(**fields)) == kind


class BosVocab(FakeVocab):
    """Puts a BOS and a space in front of text, as SentencePiece models do."""

    adds_bos = True

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        return [BOS, *super().tokenize(" " + text, False, parse_special)]


def test_echo_keeps_a_space_that_was_given_as_a_token() -> None:
    request = replace(
        ask("x", max_tokens=0, echo=True), prompts=(Prompt(((32,), "hello")), Prompt((" hello",)))
    )
    [story] = Bench().run(request)
    assert [story.prompted[index].text for index in range(2)] == [" hello", " hello"]


def test_echo_is_what_the_caller_wrote() -> None:
    bench = Bench(vocab=BosVocab())
    [story] = bench.run(ask("hé <|begin|> x", [BOS, 104], [104, BOS], max_tokens=0, echo=True))
    texts = [story.prompted[index].text for index in range(3)]
    assert texts == ["hé <|begin|> x", "<|begin|>h", "h<|begin|>"]


class SpacingVocab(BosVocab):
    """Puts a space behind control tokens too."""

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        spaced = text.replace("<|begin|>", "<|begin|> ")
        return super().tokenize(spaced, add_special, parse_special)


def test_echo_of_a_text_has_no_spaces_of_the_tokenizers() -> None:
    [story] = Bench(vocab=SpacingVocab()).run(ask("a<|begin|>b", max_tokens=0, echo=True))
    assert len(story.prompted[0].tokens) == 6
    assert story.prompted[0].text == "a<|begin|>b"
    mixed = replace(ask("x", max_tokens=0, echo=True), prompts=(Prompt(("a", (BOS, 104), "b")),))
    [story] = Bench(vocab=SpacingVocab()).run(mixed)
    assert story.prompted[0].text == "a<|begin|>hb"
    cut = ask("a<|begin|>b", max_tokens=0, echo=True, truncation=Truncation(max_tokens=2))
    [story] = Bench(vocab=SpacingVocab()).run(cut)
    assert story.prompted[0].text == " b"


class BrokenRunner(FakeRunner):
    """Gives NaN to whoever's prompt begins with byte 33."""

    def decode(self, spans: Sequence[Span]) -> Logits:
        logits = super().decode(spans)
        row = 0
        for span in spans:
            if self.slots[span.slot].tokens[0] == 33:
                logits[row : row + span.num_logits] = np.nan
            row += span.num_logits
        return logits


@pytest.mark.parametrize(("max_tokens", "num_top"), [(4, None), (0, 1), (4, 1)])
def test_bad_logits_end_that_request_alone(max_tokens: int, num_top: int | None) -> None:
    bad, good = (
        ask(prompt, max_tokens=max_tokens, prompt_logprobs=num_top) for prompt in ("!bad", "good")
    )
    stories = Bench(BrokenRunner()).run(bad, good)
    assert stories[0].failed is not None
    assert stories[0].failed.code == "engine_fault"
    assert stories[1].done is not None


INFILL = Infill(suffix=Prompt(("ba, and é",)))


@st.composite
def requests(draw: st.DrawFn) -> CompletionRequest:
    prompts = draw(
        st.lists(st.text(alphabet="abé", min_size=1, max_size=40), min_size=1, max_size=3)
    )
    if draw(st.booleans()):
        prompts = [prompt * 3 for prompt in prompts if len(prompt) < 15] or prompts
    header = draw(st.sampled_from(["", "ab" * 20]))  # worth waiting for, or a checkpoint
    prompts = [header + prompt for prompt in prompts]
    n = draw(st.integers(1, 3))
    return ask(
        *prompts,
        n=n,
        max_tokens=draw(st.sampled_from([0, 1, 3, 20])),
        stop=tuple(draw(st.lists(st.sampled_from(["a", "th", " "]), max_size=2))),
        logprobs=draw(st.sampled_from([None, 0, 2])),
        prompt_logprobs=draw(st.sampled_from([None, 0, 2])),
        best_of=draw(st.sampled_from([None, n + 2])),
        infill=draw(st.sampled_from([*[None] * 4, INFILL, replace(INFILL, mode="ranked")])),
        use_cache=draw(st.booleans()),
        tenant=draw(st.sampled_from(["", "a", "b"])),
        repetition=draw(st.sampled_from([None, None, Repetition(max_size=3)])),
        sampling=Sampling(seed=draw(st.integers(0, 3)), temperature=draw(st.sampled_from([0, 1]))),
    )


@settings(max_examples=12, deadline=None)
@given(asked=st.lists(requests(), min_size=1, max_size=5), seed=st.integers(0, 2**32))
def test_same_request_same_answer_under_any_load(asked: list[CompletionRequest], seed: int) -> None:
    """Tiny memory forces eviction and preemption; arrivals, cancels and drafts are random; all must finish alike."""
    singles = [Bench(context_length=100, draft_rows=1) for _ in asked]
    alone = {
        request.request_id: single.run(request)[0].essence
        for single, request in zip(singles, asked, strict=True)
    }
    known = texts(singles)
    for can_trim, can_give_back in ((True, 0), (False, 0), (False, 1), (False, 9)):
        chance = random.Random(seed + can_trim + 2 * can_give_back)
        crowd = some_crowd(chance, can_trim=can_trim, can_give_back=can_give_back)
        guess(crowd, known, chance)
        cancelled = arrive(crowd, asked, chance, most_steps=6)
        crowd.run()
        crowd.scheduler.check()
        for request_id, answer in alone.items():
            if request_id not in cancelled:
                assert crowd.stories[request_id].essence == answer


def some_crowd(chance: random.Random, **limits: Any) -> Bench:
    """One whose steps take any time."""
    crowd = Bench(
        chunk_rows=chance.choice([1, 7, 64]),
        num_slots=chance.randint(2, 9),
        num_cells=chance.randint(110, 300),
        context_length=100,
        **limits,
    )
    crowd.step_clock = chance.random
    return crowd


def test_drafts_save_steps_and_change_nothing() -> None:
    """A text that repeats itself is guessed, with the same tokens and scores as without guessing."""
    request = ask("abcabcabc", max_tokens=40, logprobs=1, sampling=Sampling(temperature=0))
    stories, steps, accepted = [], [], []
    for draft_rows in (1, 8):
        runner = FakeRunner(default_capabilities(draft_rows=draft_rows), script=b"abc")
        bench = ticking(Bench(runner))
        stories += bench.run(request)
        steps.append(bench.scheduler.stats.steps)
        accepted.append(sum(bench.scheduler.stats.draft_accepted_at))
    assert stories[0].essence == stories[1].essence
    cuts = [[e for e in story.events if isinstance(e, Delta)] for story in stories]
    assert [e.text for e in cuts[0]] == [e.text for e in cuts[1]], "streams are cut alike"
    assert steps[1] < steps[0] / 2
    assert accepted[0] == 0 < accepted[1]


def test_no_memory_is_leaked() -> None:
    bench = Bench(num_cells=300, context_length=100, num_slots=4)
    for i in range(30):
        bench.run(ask(f"prompt number {i}", n=2, max_tokens=9))
    stats = bench.scheduler.stats
    assert stats.running == stats.waiting == 0
    assert stats.evictions > 0
    while bench.scheduler._state.memory._evict():
        pass
    assert bench.runner.cells_free == bench.capabilities.num_cells


@pytest.mark.parametrize("num_cells", [101, 150])
def test_preempted_sequences_finish_too(num_cells: int) -> None:
    bench = Bench(num_cells=num_cells, context_length=100)
    stories = bench.run(*(ask(f"{i} some prompt", max_tokens=60) for i in range(6)))
    assert all(story.done is not None for story in stories)
    assert bench.scheduler.stats.preemptions > 0


def test_keys_take_turns_for_running_slots_too() -> None:
    """One key fills every slot; another's request gets one of them at once, and nothing is lost."""
    greedy = ask("all of them", n=8, max_tokens=60, tenant="greedy")
    bench = Bench(num_slots=4)
    bench.submit(greedy)
    for _ in range(4):
        bench.step()
    assert bench.scheduler.stats.running == 4
    modest = ask("one token", max_tokens=1, tenant="modest")
    bench.submit(modest)
    for _ in range(3):
        bench.step()
    assert bench.stories[modest.request_id].done is not None
    assert bench.scheduler.stats.preemptions == 1
    bench.run()
    assert bench.stories[greedy.request_id].essence == Bench().run(greedy)[0].essence


def test_one_that_gave_its_place_to_another_key_goes_on_before_those_that_came_later() -> None:
    bench = Bench(num_slots=4)
    greedy = [ask(f"greedy {number}", max_tokens=30, tenant="greedy") for number in range(9)]
    for request in greedy:
        bench.submit(request)
    for _ in range(4):
        bench.step()
    bench.submit(ask("modest", max_tokens=1, tenant="modest"))
    bench.step()
    assert bench.scheduler.stats.preemptions == 1
    waiting = [sequence.request_id for sequence in bench.scheduler._state.waiting]
    assert waiting == [request.request_id for request in greedy[3:]]
    bench.run()


def test_two_keys_that_want_everything_share_it() -> None:
    bench = Bench(num_slots=4)
    both = [ask("p", n=6, max_tokens=50, tenant=tenant) for tenant in ("a", "b")]
    bench.submit(both[0])
    for _ in range(4):
        bench.step()
    bench.submit(both[1])
    for _ in range(4):
        bench.step()
    running = [s.request_id for s in bench.scheduler._state.running]
    assert [running.count(request.request_id) for request in both] == [2, 2]
    preemptions = bench.scheduler.stats.preemptions
    for _ in range(10):
        bench.step()
    assert bench.scheduler.stats.preemptions == preemptions, "places are not taken back and forth"
    bench.run()


def scripted(text: str, **limits: int) -> Bench:
    return Bench(FakeRunner(default_capabilities(**limits), script=text.encode()))


def test_a_line_indented_less_ends_the_choice() -> None:
    (story,) = scripted("if x:\n  y\nz").run(ask("p", min_indent=2, max_tokens=50))
    assert story.texts[0] == "if x:\n  y\n"
    assert (story.finished[0].reason, story.finished[0].cause) == ("length", "indent")


def test_a_choice_that_is_late_ends_with_its_line() -> None:
    """The clock of the bench ticks once per step."""
    bench = scripted("a\nb\nc\nd\n", draft_rows=1)
    (story,) = bench.run(ask("p", time_limit_s=2.5, max_tokens=50))
    assert story.texts[0] == "a\nb\n"
    assert (story.finished[0].reason, story.finished[0].cause) == ("length", "time")


def test_progress_is_told_on_request() -> None:
    bench = Bench(chunk_rows=10)
    quiet, told = bench.run(ask("x" * 25), ask("y" * 25, n=2, report_progress=True))
    assert not any(isinstance(event, Progress) for event in quiet.events)
    steps = [event for event in told.events if isinstance(event, Progress)]
    assert [step.num_read for step in steps][-1] == 25
    assert (steps[0].num_read, steps[0].prompt_s) == (0, 0.0), "it begins with nothing read"
    assert sorted(step.num_read for step in steps) == [step.num_read for step in steps]
    assert len(steps) >= 3
    assert all((step.prompt, step.num_tokens, step.num_cached) == (0, 25, 0) for step in steps)
    assert told.events.index(steps[-1]) < told.events.index(told.prompted[0])


def test_truncated_tokens_are_reported() -> None:
    bench = Bench(context_length=20)
    (story,) = bench.run(ask("x" * 30, "x", truncation=Truncation(), max_tokens=5))
    assert [story.prompted[i].num_dropped for i in range(2)] == [15, 0]
    assert story.done is not None
    assert story.done.usage.prompt_tokens == 16


def test_times_are_told_as_they_pass() -> None:
    bench = Bench(draft_rows=1)
    (story,) = bench.run(ask("x", max_tokens=4))
    times = [event.decode_s for event in story.events if isinstance(event, Delta)]
    assert times == sorted(times)
    assert times[-1] == story.finished[0].decode_s > 0
    stats = bench.scheduler.stats
    assert stats.decode_s == story.finished[0].decode_s
    assert stats.prompt_s == story.finished[0].prompt_s
