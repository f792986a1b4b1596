"""Context shift: an answer that fills the context goes on as a plain loop would go on, whatever else runs."""

import random
from dataclasses import replace
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.bounds import LEAST_DROPPED, MOST_CONTEXTS
from segue.engine.constraints import guide as guides
from segue.engine.constraints.guide import Guide
from segue.engine.request.output import Output
from segue.engine.request.sequence import SequenceKey
from segue.engine.sampling.sampler import Sampler
from segue.engine.sampling.token_rules import token_rules
from segue.engine.seam import Logits, Span
from segue.errors import InvalidField
from segue.runners.fake import VOCAB_SIZE, FakeRunner, FakeVocab, default_capabilities
from segue.types import Cause, CompletionRequest, Constraint, Repetition, Sampling, Shift
from tests.engine.harness import Bench, ask, ticking
from tests.engine.scheduling.ahead.test_answers import samplings
from tests.engine.scheduling.ahead_runner import AheadRunner, same
from tests.engine.scheduling.block_runner import BlockRunner
from tests.engine.scheduling.guesses import guess
from tests.engine.scheduling.test_preemption import CONSTRAINTS, MOST, SCRIPTS, preempt

VOCAB = FakeVocab()


class Model(NamedTuple):
    """What answers depend on."""

    size: int  # of the context
    script: bytes | None
    end_bias: float

    def row(self, window: list[int]) -> Logits:
        runner = FakeRunner(script=self.script, end_bias=self.end_bias)
        [row] = runner.decode([Span(0, window, 0, 1)])
        return row.copy()  # type: ignore[no-any-return]


class Answer(NamedTuple):
    tokens: list[int]
    text: str
    cause: Cause
    num_dropped: int


def in_turn(how: Shift, num_prompt: int, size: int) -> tuple[int, int]:
    """How many tokens stay, and how many go after them, each time that `size` are there."""
    least = size // LEAST_DROPPED or 1
    kept = min(num_prompt if how.num_kept == -1 else how.num_kept, size - 1 - 2 * least)
    others = size - 1 - kept
    return kept, max(least, min(how.num_dropped or others // 2, others - 1))


def plain_loop(
    model: Model, bench: Bench, request: CompletionRequest, prompt: str, candidate: int
) -> Answer:
    """By definition: for each token the whole window is read again, as a text of its own."""
    sampling, constraint = request.sampling, request.constraint
    rules = token_rules(sampling, VOCAB, VOCAB_SIZE, constraint is not None, frozenset())
    sampler = Sampler(sampling, sampling.seed or 0, candidate, VOCAB_SIZE, rules)
    guide = None if constraint is None else Guide(bench.compiler.compile(constraint))
    output = Output(request.stop, sampling.min_tokens)
    window = VOCAB.tokenize(prompt, True, True)
    kept, dropped = in_turn(request.shift or Shift(), len(window), model.size)
    longest = min(request.max_tokens or 2**31, MOST_CONTEXTS * model.size)
    sampler.start(window)
    tokens: list[int] = []
    num_dropped = 0
    cause: Cause | None = None
    while cause is None:
        if len(window) == model.size:
            window = window[:kept] + window[kept + dropped :]
            num_dropped += dropped
        token = drawn(model.row(window), sampler, guide, len(tokens))
        if token is None:
            cause = "constraint" if guide is not None and guide.is_whole else "dead_end"
            break
        window.append(token)
        tokens.append(token)
        sampler.push(token)
        cause = rules.causes.get(token)
        output.push(token, b"" if cause else rules.texts[token], None)
        if cause is None and output.stopped_by is not None:
            cause = "stop_text"
        if cause is None and guide is not None and guide.accept(token):
            cause = "constraint"
        if cause is None and guide is not None and guide.wait() and guide.was_over:
            cause = "constraint"
        if cause is None and len(tokens) == longest:
            is_over = guide is not None and guide.wait() and guide.is_over
            is_asked = longest == request.max_tokens
            cause = "constraint" if is_over else "max_tokens" if is_asked else "context"
    was_stopped = output.stopped_by is not None
    rest = output.flush(keeps_half=constraint is None)
    if output.stopped_by is not None and not was_stopped:
        cause = "stop_text"
    return Answer(tokens, rest.text if rest else "", cause, num_dropped)


def drawn(row: Logits, sampler: Sampler, guide: Guide | None, position: int) -> int | None:
    if guide is not None and guide.wait() and not guide.apply(row):
        return None
    try:
        return sampler.sample(row, position)
    except InvalidField:
        if guide is None:
            raise
        return None


@st.composite
def shifting(draw: st.DrawFn) -> tuple[CompletionRequest, str]:
    """A request whose answer is long, and its prompt."""
    picked = st.sampled_from
    sampling = msgspec.structs.replace(
        draw(samplings()),
        ignore_eos=draw(picked([True, True, False])),
        stop_token_ids=(),
        allowed_token_ids=None,
    )
    prompt = draw(st.text(alphabet="abé", min_size=1, max_size=6))
    how = Shift(
        num_kept=draw(picked([0, 0, 4, 9, 2**31 - 1, -1])),
        num_dropped=draw(picked([0, 0, 1, 7, 2**31 - 1])),
    )
    request = ask(
        prompt,
        sampling=sampling,
        shift=how,
        max_tokens=draw(picked([20, 50, 50, 90, 90, None])),
        n=draw(picked([1, 1, 2, 3])),
        use_cache=draw(picked([True, True, False])),
        tenant=draw(picked(["", "a"])),
        constraint=draw(picked(CONSTRAINTS)),
        stop=tuple(draw(st.lists(picked(["at t", "th", "–x"]), max_size=1))),
        logprobs=draw(picked([None, None, 1])),
        prompt_logprobs=draw(picked([None, None, 2])),
    )
    return request, prompt


@pytest.mark.parametrize("is_late", [False, True])
@settings(max_examples=15, deadline=None)
@given(
    asked=st.lists(shifting(), min_size=1, max_size=3),
    script=st.sampled_from(SCRIPTS),
    size=st.integers(16, 32),
    can_give_back=st.sampled_from([0, 0, 1, 9]),
    seed=st.integers(0, 2**32),
)
def test_answers_are_those_of_a_plain_loop(
    asked: list[tuple[CompletionRequest, str]],
    script: bytes | None,
    size: int,
    can_give_back: int,
    seed: int,
    is_late: bool,
) -> None:
    """Preempted at any time, with little memory, with drafts, with steps begun ahead, in chunks, from a cache."""
    chance = random.Random(seed)
    model = Model(size, script, chance.choice([0.0, 2.0]))
    limits = default_capabilities(
        num_slots=chance.randint(3, 12),
        num_cells=chance.randint(size + 32, 6 * size),
        context_length=size,
        rows_ahead=chance.choice([0, 16]),
    )
    limits = replace(
        limits,
        cells_per_block=chance.choice([1, 8]),
        can_trim=not can_give_back,
        can_give_back=can_give_back,
        draws=True,
    )
    crowd = Bench(
        BlockRunner(limits, chance.choice([0, 7]), model.end_bias, script),
        chunk_rows=chance.choice([5, 64]),
    )
    crowd.may_go_on = lambda: chance.random() < 0.7
    wanted: dict[tuple[str, int], Answer] = {}
    known: dict[SequenceKey, list[int]] = {}
    for request, prompt in asked:
        for candidate in range(request.n):
            answer = plain_loop(model, crowd, request, prompt, candidate)
            wanted[request.request_id, candidate] = answer
            whole = [*VOCAB.tokenize(prompt, True, True), *answer.tokens]
            known[SequenceKey(request.request_id, 0, candidate)] = whole
    guess(crowd, known, chance)
    with pytest.MonkeyPatch.context() as patch:
        # The thread of all requests never has the lexer, so that masks tell whether a text is over; or it always has.
        late = {"_read_now": lambda *_: None} if is_late else {"_LEXER_S": 60.0}
        for name, value in late.items():
            patch.setattr(guides, name, value)
        for request, _ in asked:
            crowd.submit(request)
        num_preempted = 0
        while crowd.step() or crowd.scheduler.awaits_mask:
            if num_preempted < MOST:
                num_preempted += preempt(crowd, chance)
    for (request_id, choice), answer in wanted.items():
        story = crowd.stories[request_id]
        end = story.finished[choice]
        told = story.tokens[choice], story.texts[choice], end.cause, end.num_dropped
        assert told == answer
        assert end.num_tokens == len(answer.tokens)
    for request, _ in asked:
        done = crowd.stories[request.request_id].done
        drawn = [wanted[request.request_id, choice].tokens for choice in range(request.n)]
        assert done is not None
        assert done.usage.completion_tokens == sum(map(len, drawn))


def long(prompt: str, **fields: object) -> CompletionRequest:
    """Its answer is twice as long as the context of `small`."""
    sampling = Sampling(seed=3, ignore_eos=True)
    return ask(prompt, **{"sampling": sampling, "max_tokens": 128, "shift": Shift(), **fields})  # type: ignore[arg-type]


def small(**limits: int) -> Bench:
    return Bench(
        AheadRunner(
            replace(default_capabilities(context_length=64, **limits), draws=True), 0, 0.0, None
        )
    )


def test_without_a_bound_it_ends_after_ten_contexts() -> None:
    bench = small()
    endless, bounded, asked = bench.run(
        long("ab", max_tokens=None),
        long("ab", max_tokens=None, shift=Shift(most_tokens=100)),
        long("ab", max_tokens=2**31 - 1, shift=Shift(most_tokens=1000)),
    )
    for story, most in ((endless, 640), (bounded, 100), (asked, 640)):
        end = story.finished[0]
        assert (end.cause, end.reason, end.num_tokens) == ("context", "length", most)
    assert endless.texts == asked.texts
    assert endless.texts[0].startswith(bounded.texts[0])


@pytest.mark.parametrize("most", [128, 62])
@pytest.mark.parametrize("is_late", [False, True])
def test_room_for_a_token_that_does_not_come_is_not_told(
    monkeypatch: pytest.MonkeyPatch, is_late: bool, most: int
) -> None:
    """The constraint ends it with the token that fills the context, also if only the next mask tells that."""
    if is_late:
        monkeypatch.setattr(guides, "_read_now", lambda *_: None)
    exact = Constraint(kind="regex", value="[xyz]{62}", param="regex")
    bench = small()
    [story] = bench.run(long("ab", constraint=exact, max_tokens=most))
    end = story.finished[0]
    assert (end.cause, end.num_tokens, end.num_dropped) == ("constraint", 62, 0)


def test_what_a_text_repeats_ends_it() -> None:
    """The whole answer counts, not what of it is in the window."""
    sampling = Sampling(seed=3, temperature=0.0)
    bench = Bench(FakeRunner(replace(default_capabilities(), context_length=20), script=b"x"))
    watch = Repetition(max_size=1, min_count=32)
    [story] = bench.run(long("ab", sampling=sampling, repetition=watch))
    end = story.finished[0]
    assert (end.cause, end.num_tokens, story.texts[0]) == ("repetition", 32, "x" * 32)
    assert end.num_dropped == 2 * 9


@pytest.mark.parametrize("can_give_back", [0, 9])
def test_what_the_cache_has_afterwards_is_what_the_slot_holds(can_give_back: int) -> None:
    """Its tokens and their scores: of the whole window, of the prompt that it began with, of what was kept of that."""
    bench = Bench(
        chunk_rows=16,
        can_trim=not can_give_back,
        can_give_back=can_give_back,
        context_length=64,
    )
    prompt = [*range(97, 122), *range(65, 90)]
    first = long("", prompt_logprobs=2, shift=Shift(num_kept=9, num_dropped=20))
    first = msgspec.structs.replace(first, prompts=ask(prompt).prompts)
    bench.submit(first)
    [sequence] = bench.jobs[0].sequences
    later: list[CompletionRequest] = []
    while bench.step():
        if sequence.num_dropped and sequence.num_pending > 1 and len(later) < 4:
            tokens = [*sequence.tokens]
            later += [ask(each, prompt_logprobs=2) for each in (prompt, tokens[:-1])]
            bench.submit(later[-2])
            bench.submit(later[-1])
    assert len(later) == 4
    later.append(ask(sequence.tokens[:-2], prompt_logprobs=2))
    bench.run(later[-1])
    for request in later:
        story = bench.stories[request.request_id]
        [alone] = Bench(context_length=64).run(request)
        assert story.essence == alone.essence
        assert story.prompted[0].scores == alone.prompted[0].scores


def test_what_is_kept_is_not_read_again() -> None:
    """Where a slot can be trimmed; in whole blocks."""
    rows = {}
    for can_trim, block in ((True, 1), (True, 8), (False, 1)):
        limits = replace(
            default_capabilities(context_length=64), can_trim=can_trim, cells_per_block=block
        )
        runner = FakeRunner(limits)
        bench = Bench(runner)
        bench.run(long("ab", max_tokens=63, shift=Shift(num_kept=31)))
        assert bench.jobs[0].sequences[0].num_dropped == 16
        rows[can_trim, block] = runner.num_rows - 63
    assert rows == {(True, 1): 17, (True, 8): 17 + 7, (False, 1): 17 + 31}


def test_steps_go_ahead_between_shifts_and_drafts_are_made() -> None:
    """The text repeats itself, so what followed earlier is a good draft, also after tokens were dropped."""
    asked = [long(f"{number}, ") for number in range(3)]
    asked.append(long("abcdef", sampling=Sampling(seed=1, temperature=0.0), max_tokens=300))
    stories, rows = {}, {}
    for rows_ahead, draft_rows in ((0, 1), (16, 1), (0, 8)):
        limits = default_capabilities(64, 512, 64, rows_ahead=rows_ahead, draft_rows=draft_rows)
        runner = AheadRunner(replace(limits, draws=True), 0, 0.0, b"the cat the hat ")
        bench = ticking(Bench(runner))
        stories[rows_ahead, draft_rows] = [same(story) for story in bench.run(*asked)]
        rows[rows_ahead, draft_rows] = runner.num_rows
        assert (runner.num_ahead > 0) == (rows_ahead > 0)
        assert (bench.scheduler.stats.draft_accepted > 0) == (draft_rows > 1)
    assert stories[16, 1] == stories[0, 8] == stories[0, 1]
    assert rows[16, 1] == rows[0, 1], "when a context is full is known before"


def test_what_a_constraint_forces_ends_with_the_context() -> None:
    """As many of these tokens are computed at once as there is room for, ahead too."""
    words = Constraint(kind="regex", value="(the cat the hat ){20}", param="regex")
    asked = [long(f"{number}:", constraint=words, max_tokens=400) for number in range(3)]
    for rows_ahead in (0, 16):
        limits = default_capabilities(64, 512, 64, rows_ahead=rows_ahead)
        runner = AheadRunner(replace(limits, draws=True), 0, 0.0, None)
        for story in Bench(runner).run(*asked):
            assert story.texts[0] == "the cat the hat " * 20
            assert story.finished[0].num_dropped == 31 * 9
        assert (runner.num_ahead > 0) == (rows_ahead > 0)


def test_the_best_of_many_are_found_over_all_their_tokens() -> None:
    """Candidates share a prompt, and each drops its own tokens of it."""
    [best] = small().run(long("ab", n=2, best_of=5))
    alone = small().run(long("ab", n=5, logprobs=0))[0]
    means = {c: sum(s.logprob or 0 for s in scores) / 128 for c, scores in alone.scores.items()}
    ranked = sorted(means, key=lambda c: -means[c])
    assert [best.texts[0], best.texts[1]] == [alone.texts[c] for c in ranked[:2]]
    assert best.done is not None
    assert best.done.usage.completion_tokens == 5 * 128
