import random
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from segue.engine.constraints.compiler import Compiler, Grammar
from segue.engine.constraints.guide import Guide
from segue.engine.seam import Logits, Span
from segue.runners.fake import EOS, VOCAB_SIZE, FakeRunner, FakeVocab
from segue.types import Constraint, Sampling
from tests.engine.constraints.guided import compiled, is_prefix, regex
from tests.engine.harness import Bench, RequestEvents, ask

PERSON = """{"type": "object", "properties": {"name": {"type": "string", "maxLength": 5},
"age": {"type": "integer", "maximum": 99, "minimum": 1}}, "required": ["name", "age"],
"additionalProperties": false}"""


def allowed(guide: Guide) -> set[int]:
    row = np.zeros(VOCAB_SIZE, np.float32)
    assert guide.apply(row)
    return set(np.flatnonzero(row == 0).tolist())


# --- how an output ends ---------------------------------------------------------------------------


def test_nothing_may_follow_so_it_ends_at_once() -> None:
    story = Bench().run(ask("x", constraint=regex("abc"), max_tokens=3))[0]
    end = story.finished[0]
    assert (story.texts[0], end.reason, end.cause, end.num_tokens) == (
        "abc",
        "stop",
        "constraint",
        3,
    )


def test_the_end_token_is_allowed_only_where_the_grammar_accepts() -> None:
    guide = Guide(compiled(regex("ab+")))
    assert allowed(guide) == {ord("a")}
    guide.accept(ord("a"))
    assert allowed(guide) == {ord("b")}
    guide.accept(ord("b"))
    assert allowed(guide) == {ord("b"), EOS}


@pytest.mark.parametrize(
    ("sampling", "text"),
    [
        (Sampling(seed=1, logit_bias={ord("b"): -np.inf}), "a"),
        (Sampling(seed=1, logit_bias={ord("a"): -np.inf}), ""),
        (Sampling(seed=1, allowed_token_ids=(ord("a"), ord("c"))), "a"),
        (Sampling(seed=1, bad_words=("bc",)), "ab"),
    ],
)
def test_bans_that_leave_nothing_are_a_dead_end(sampling: Sampling, text: str) -> None:
    story = Bench().run(ask("x", constraint=regex("abc"), sampling=sampling))[0]
    end = story.finished[0]
    assert (story.texts[0], end.reason, end.cause) == (text, "error", "dead_end")
    assert story.done is not None


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(seed=1, allowed_token_ids=(ord("a"), ord("b"))),
        Sampling(seed=1, logit_bias={ord("z"): -np.inf, EOS: -np.inf}),
    ],
)
def test_a_text_that_meets_its_constraint_stops_where_bans_leave_nothing(
    sampling: Sampling,
) -> None:
    choice = Constraint(kind="choice", value=("abz", "ab"))
    story = Bench().run(ask("x", constraint=choice, sampling=sampling))[0]
    end = story.finished[0]
    assert (story.texts[0], end.reason, end.cause) == ("ab", "stop", "constraint")


@pytest.mark.parametrize("sampling", [Sampling(ignore_eos=True), Sampling(min_tokens=9)])
def test_a_complete_text_ends_whatever_was_asked(sampling: Sampling) -> None:
    story = Bench().run(ask("x", constraint=regex("(abc)?"), sampling=sampling))[0]
    assert (story.texts[0], story.finished[0].reason) == ("abc", "stop")


def test_a_cut_inside_a_character_ends_the_text_before_it() -> None:
    story = Bench().run(ask("x", constraint=regex("aé€"), max_tokens=2))[0]
    assert (story.texts[0], story.finished[0].reason) == ("a", "length")


def test_a_dead_end_of_the_grammar_itself() -> None:
    """The lexer takes the longest match, so in Lark what a lexeme swallows cannot follow it."""
    lark = Constraint(kind="lark", value='start: WORD "b"\nWORD: /[a-b]{2}/')
    bench = Bench()
    bench.compiler = Compiler(bench.vocab, VOCAB_SIZE)
    story = bench.run(ask("x", constraint=lark, max_tokens=9))[0]
    assert story.finished[0].reason in ("stop", "error")


# --- together with everything else ----------------------------------------------------------------


def essences(bench: Bench, **fields: object) -> list[object]:
    person = Constraint(kind="json_schema", value=PERSON)
    requests = [
        ask("one", constraint=person, sampling=Sampling(seed=seed, temperature=1.3), **fields)
        for seed in range(6)
    ]
    return [story.essence for story in bench.run(*requests)]


def test_the_answer_does_not_depend_on_load_or_drafts_or_preemption() -> None:
    fields: dict[str, object] = {"max_tokens": 60, "logprobs": 2}
    alone = [
        Bench(draft_rows=1)
        .run(
            ask(
                "one",
                constraint=Constraint(kind="json_schema", value=PERSON),
                sampling=Sampling(seed=seed, temperature=1.3),
                **fields,
            )
        )[0]
        .essence
        for seed in range(6)
    ]
    assert essences(Bench(), **fields) == alone
    crowded = Bench(num_slots=8, num_cells=120, context_length=100, draft_rows=32)
    assert essences(crowded, **fields) == alone
    assert crowded.scheduler.stats.preemptions > 0


def test_it_composes() -> None:
    """n of best_of for two prompts, with stop, penalties, logprobs and echo."""
    request = ask(
        "one",
        "two",
        constraint=regex("([a-d]{3},){2,20}"),
        n=2,
        best_of=4,
        stop=("a,",),
        logprobs=3,
        echo=True,
        max_tokens=50,
        sampling=Sampling(seed=3, frequency_penalty=0.5, repetition_penalty=1.1, top_p=0.9),
    )
    story = Bench().run(request)[0]
    assert len(story.finished) == 4
    grammar = compiled(regex("([a-d]{3},){2,20}"))
    for choice, end in story.finished.items():
        text = story.texts[choice] + (end.stop if isinstance(end.stop, str) else "")
        assert is_prefix(grammar, list(text.encode()), VOCAB_SIZE)
    assert any(end.cause == "stop_text" for end in story.finished.values())


def test_log_probabilities_are_of_the_raw_logits() -> None:
    story = Bench().run(ask("x", constraint=regex("zzz"), logprobs=4))[0]
    assert [score.token for score in story.scores[0]] == list(b"zzz")
    for score in story.scores[0]:
        assert score.logprob is not None
        assert score.logprob < -0.5
        assert any(alternative.token != ord("z") for alternative in score.top)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(seed=1, top_n_sigma=1.0),
        Sampling(seed=1, mirostat=2),
        Sampling(seed=1, mirostat=1),
        Sampling(seed=1, typical_p=0.5, min_p=0.1, top_k=3),
        Sampling(seed=1, xtc_probability=1.0, xtc_threshold=0.1),
        Sampling(seed=1, dry_multiplier=1.0, dynatemp_range=0.5),
        Sampling(temperature=0.0),
    ],
)
def test_every_sampler_draws_what_is_allowed(sampling: Sampling) -> None:
    story = Bench().run(
        ask("x", constraint=regex("[ab]{20}"), n=3, max_tokens=20, sampling=sampling)
    )[0]
    for text in story.texts.values():
        assert len(text) == 20
        assert set(text) <= set("ab")


def test_a_slot_keeps_nothing_of_a_constraint() -> None:
    bench = Bench(num_slots=1)
    free = [ask(f"p{i}", max_tokens=8) for i in range(20)]
    alone = [Bench().run(request)[0].essence for request in free]
    stories: list[RequestEvents] = []
    for request in free:
        bench.run(ask("c", constraint=regex("q+"), max_tokens=4))
        stories += bench.run(request)
    assert [story.essence for story in stories] == alone


# --- forced tokens, masks, and what is shared -----------------------------------------------------


def test_forced_tokens_are_taken_in_one_step() -> None:
    constant = Constraint(kind="choice", value=("the quick brown fox jumps",))
    bench = Bench(draft_rows=1)
    story = bench.run(ask("x", constraint=constant, max_tokens=100))[0]
    stats = bench.scheduler.stats
    assert story.texts[0] == "the quick brown fox jumps"
    assert stats.steps == 2
    assert (stats.draft_tokens, stats.draft_accepted) == (24, 23)  # after the last it is over


@pytest.mark.parametrize(
    ("fields", "num_rows"),
    [
        ({}, 2),
        ({"logprobs": 0}, 27),
        ({"sampling": Sampling(seed=1, logit_bias={ord("q"): -5.0})}, 27),
        ({"sampling": Sampling(seed=1, mirostat=2)}, 27),
        ({"post_sampling_probs": True, "logprobs": 1}, 27),
    ],
)
def test_forced_tokens_are_taken_unseen_unless_somebody_must_see_them(
    fields: dict[str, Any], num_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of logits costs as much as a token: none is asked for that cannot matter."""
    asked: list[int] = []
    decode = FakeRunner.decode

    def counting(runner: FakeRunner, spans: Sequence[Span]) -> Logits:
        asked.extend(span.num_logits for span in spans)
        return decode(runner, spans)

    monkeypatch.setattr(FakeRunner, "decode", counting)
    constraint = regex("[xyz]the quick brown fox jumps")
    story = Bench().run(ask("p", constraint=constraint, max_tokens=100, **fields))[0]
    assert story.texts[0][1:] == "the quick brown fox jumps"
    assert story.finished[0].cause == "constraint"
    assert sum(asked) == num_rows


def test_forced_tokens_respect_max_tokens() -> None:
    story = Bench().run(ask("x", constraint=regex("abcdefgh"), max_tokens=5))[0]
    assert (story.texts[0], story.finished[0].reason) == ("abcde", "length")


def test_ids_beyond_the_vocabulary_are_never_allowed() -> None:
    grammar = Compiler(FakeVocab(), VOCAB_SIZE + 100).compile(regex(".*"))
    row = np.zeros(VOCAB_SIZE + 100, np.float32)
    assert Guide(grammar).apply(row)
    assert np.isneginf(row[EOS + 1 :]).all()
    assert row[EOS] == 0


def test_a_spoilt_lexer_hurts_nobody_else() -> None:
    """Guides of one grammar share a lexer; when it has failed they go on with one of their own."""
    compiler = Compiler(FakeVocab(), VOCAB_SIZE)
    constraint = regex("[a-c]+(xy?a{99999999}|!)")
    grammar = compiler.compile(constraint)
    good, bad = Guide(grammar), Guide(grammar)
    good.accept(ord("a"))
    for token in b"axaa":
        bad.accept(token)
        bad.wait()
    assert grammar.is_spoilt
    for token in b"abc":
        good.accept(token)
        assert good.apply(np.zeros(VOCAB_SIZE, np.float32))
    assert good.accept(ord("!")) or good.is_over  # the other's masks may have made it a slow one
    assert compiler.known(constraint) is None
    assert compiler.compile(constraint) is not grammar


TANGLED = regex("[ab]*a[ab]{12}c!{5}")  # a state for nearly every text of a and b


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lexer is full after some 150 tokens of a text that another lexer can follow to its end."""
    monkeypatch.setattr("segue.engine.constraints.compiler.MAX_STATES", 400)


def letters(seed: int, count: int) -> list[int]:
    return random.Random(seed).choices(b"ab", k=count)


def masks(grammar: Grammar, tokens: Sequence[int], meanwhile: Guide | None = None) -> list[object]:
    """What may follow each token, up to a dead end; another guide of the grammar reads other texts meanwhile."""
    guide, found = Guide(grammar), list[object]()
    for token in tokens:
        if meanwhile is not None:
            meanwhile.accept(random.Random(len(found)).choice(b"ab"))
            meanwhile.wait()
        guide.accept(token)
        row = np.zeros(VOCAB_SIZE, np.float32)
        found.append(guide.apply(row) and row.tobytes())
        if not found[-1]:
            break
    return [*found, guide.may_end()]


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("others", [1, 2, 3, 9])
def test_what_others_have_read_does_not_show(others: int) -> None:
    """A lexer's room was shared: who came later came to a dead end earlier."""
    compiler, text = Compiler(FakeVocab(), VOCAB_SIZE), letters(0, 300)
    alone = masks(Compiler(FakeVocab(), VOCAB_SIZE).compile(TANGLED), text)
    shared = compiler.compile(TANGLED)
    for other in range(others):
        masks(shared, letters(1 + other, 60))
    assert masks(shared, text) == alone
    assert masks(compiler.compile(TANGLED), text, Guide(shared)) == alone
    assert shared.is_spoilt


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize(
    "constraint",
    [
        Constraint(kind="gbnf", value='root ::= "<x>" ([ab]* "a" [ab]{12} "c" | [ab]* "!")'),
        regex("<x>[ab]*a[ab]{12}c!{5}"),
    ],
    ids=lambda constraint: constraint.kind,
)
def test_a_beginning_that_is_forced_does_not_hide_a_spoilt_lexer(constraint: Constraint) -> None:
    """Its mask asks no lexer, so that the lexer was taken to be sound, and later texts ended where they stood."""
    compiler, text = Compiler(FakeVocab(), VOCAB_SIZE), [*b"<x>", *letters(0, 20)]
    alone = masks(Compiler(FakeVocab(), VOCAB_SIZE).compile(constraint), text)
    shared = compiler.compile(constraint)
    for other in range(9):
        masks(shared, [*b"<x>", *letters(1 + other, 60)])
    assert not shared.is_sound
    assert masks(shared, text) == alone
    assert shared.is_spoilt


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize(
    ("constraint", "is_whole"), [(TANGLED, False), (regex("[ab]*(a[ab]{12}c)?"), True)]
)
def test_nobody_waits_to_learn_whether_a_text_at_a_dead_end_is_whole(
    monkeypatch: pytest.MonkeyPatch, constraint: Constraint, is_whole: bool
) -> None:
    """It needs one more lexer: whoever asks, the thread of all requests, had to make it."""
    guide, tokens = Guide(compiled(constraint)), iter(letters(0, 1000))
    while guide.apply(np.zeros(VOCAB_SIZE, np.float32)):
        guide.accept(next(tokens))
    monkeypatch.setattr(Grammar, "alone", lambda _: pytest.fail("a lexer is made"))
    assert guide.is_whole == is_whole


@pytest.mark.usefixtures("narrow")
def test_a_text_that_is_over_is_over_in_a_full_lexer_too() -> None:
    shared = Compiler(FakeVocab(), VOCAB_SIZE).compile(TANGLED)
    guide = Guide(shared)
    for token in b"aaaaaaaaaaaaac!":
        assert not guide.accept(token)
        guide.wait()
    masks(shared, letters(1, 300))
    assert not shared.is_sound
    for left in (4, 3, 2, 1):
        assert guide.forced == (ord("!"),) * left
        assert not guide.accept(ord("!"))
    assert guide.is_over
    assert guide.is_whole
    assert not guide.apply(np.zeros(VOCAB_SIZE, np.float32))


def test_a_slow_mask_holds_only_its_own_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others go on step by step while one sequence waits for what its constraint allows."""
    gate = threading.Event()
    original = Grammar.mask

    def slow(self: Grammar, matcher: object) -> object:
        if threading.current_thread().name.startswith("mask"):
            gate.wait(600)
        return original(self, matcher)  # type: ignore[arg-type]

    bench = Bench(draft_rows=1)
    monkeypatch.setattr(Grammar, "mask", slow)
    held, free = ask("x", constraint=regex("[ab]{9}"), max_tokens=9), ask("y", max_tokens=30)
    bench.submit(held)
    bench.submit(free)
    while bench.stories[free.request_id].done is None:
        assert bench.step()
    assert bench.scheduler.awaits_mask
    assert not bench.step()
    assert len(bench.stories[held.request_id].texts[0]) == 1
    gate.set()
    assert bench.run() == []
    assert len(bench.stories[held.request_id].texts[0]) == 9
