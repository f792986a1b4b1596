"""Constraints in steps begun ahead: answers are those of single steps, whenever the masks are found."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from segue.engine.constraints.compiler import Grammar
from segue.engine.scheduling.batch import Batch
from segue.engine.scheduling.drafts.model import DraftModel
from segue.engine.scheduling.scheduler import Scheduler
from segue.engine.seam import Draw
from segue.runners.fake import EOS, FakeRunner, default_capabilities
from segue.types import CompletionRequest, Constraint, Sampling, Trigger
from tests.engine.constraints.guided import regex
from tests.engine.constraints.lazy_masks import LazyMasks, use
from tests.engine.harness import Bench, RequestEvents, ask
from tests.engine.scheduling.ahead_runner import (
    AheadRunner,
    arrive,
    check_answers,
    plain,
    runner,
    same,
)
from tests.engine.scheduling.guesses import Texts, guess, texts

PERSON = Constraint(
    kind="json_schema",
    value="""{"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}, "born":
    {"enum": ["yesterday", "today", 7]}}, "required": ["name", "born"], "additionalProperties": false}""",
)
CONSTRAINTS = [
    PERSON,
    regex("[a-d]{3,9}"),
    regex("((north|south) of [a-z]{1,6}, ){1,9}"),
    regex("([ab] and so on, [cd]: ){1,9}"),
    regex("forty-two"),
    Constraint(kind="choice", value=("abc", "abcdef", "xyz")),
    Constraint(kind="gbnf", value='root ::= "[" (root ("," root)*)? "]" | [0-9]+'),
    Constraint(kind="lark", value='start: WORD "b"\nWORD: /[a-b]{2}/'),  # a dead end
    Constraint(
        kind="gbnf",
        value='root ::= ([a-d]{2,9} | <[258]>) " and so on" [!?]',
        triggers=(Trigger("pattern", "[^e]([a-d])"), Trigger("token", "", 258)),
    ),
]


@st.composite
def samplings(draw: st.DrawFn) -> Sampling:
    picked = st.sampled_from
    seed, temperature = draw(st.integers(0, 1000)), draw(picked([0.0, 0.7, 1.5]))
    if draw(st.booleans()):  # then forced tokens are taken together
        return Sampling(seed=seed, temperature=temperature, ignore_eos=draw(st.booleans()))
    return Sampling(
        seed=seed,
        temperature=temperature,
        top_k=draw(picked([0, 0, 20])),
        min_p=draw(picked([0.0, 0.1])),
        presence_penalty=draw(picked([0.0, 1.5])),
        repetition_penalty=draw(picked([1.0, 1.0, 1.2])),
        dry_multiplier=draw(picked([0.0, 0.0, 0.8, 9.0, -0.5])),
        dry_allowed_length=draw(picked([0, 1, 2])),
        dry_window=draw(picked([-1, -1, 1, 5, 64])),
        dry_sequence_breakers=draw(picked([("\n",), ("a", "so"), ()])),
        ignore_eos=draw(st.booleans()),
        min_tokens=draw(picked([0, 0, 5])),
        logit_bias=draw(picked([{}, {}, {101: 5.0, EOS: -100.0}, {97: -np.inf}])),
        stop_token_ids=draw(picked([(), (), (101,)])),
        bad_words=draw(picked([(), (), ("an", "so on", "th"), ("aa", "ab", "bc", "c", '"y')])),
        allowed_token_ids=draw(picked([*[None] * 5, (*range(90, 110), EOS), (*range(128), EOS)])),
    )


@st.composite
def held(draw: st.DrawFn) -> CompletionRequest:
    picked = st.sampled_from
    return ask(
        draw(st.text(alphabet="abé", min_size=1, max_size=20)),
        max_tokens=draw(picked([5, 30, 60, 60])),
        n=draw(picked([1, 1, 3])),
        use_cache=draw(picked([True, True, False])),
        logprobs=draw(picked([*[None] * 5, 2])),
        stop=draw(picked([(), (), ("a",), ("so",)])),
        constraint=draw(picked([None, *CONSTRAINTS])),
        sampling=draw(samplings()),
    )


class Impatient(AheadRunner):
    """Its steps wait for no mask: some are found before it looks, others are late."""

    masks: LazyMasks
    chance: random.Random

    def _await_told(self, draws: Sequence[Draw]) -> None:
        if self.chance.random() < 0.8:
            self.masks.find_all()


def impatient(masks: LazyMasks, seed: int = 0, can_give_back: int = 0, **limits: Any) -> Impatient:
    """With `can_give_back`, its slots cannot be trimmed."""
    capabilities = replace(
        default_capabilities(**{"rows_ahead": 16, "draft_rows": 1, **limits}),
        draws=True,
        can_trim=not can_give_back,
        can_give_back=can_give_back,
    )
    ran = Impatient(capabilities, 0, 0.0, None)
    ran.masks, ran.chance = masks, random.Random(seed)
    return ran


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(asked=st.lists(held(), min_size=1, max_size=6), seed=st.integers(0, 2**32))
def test_answers_are_those_of_single_steps(asked: list[CompletionRequest], seed: int) -> None:
    """With little memory, arrivals and cancels between steps, and masks that come at any time or too late."""
    alone, singles = {}, []
    for request in asked:
        singles.append(Bench(runner(context_length=100, rows_ahead=0)))
        alone[request.request_id] = singles[-1].run(request)[0]
    known = texts(singles)
    for can_give_back in (0, 1, 2, 9):
        check_crowd(asked, alone, known, seed, can_give_back)


def check_crowd(
    asked: list[CompletionRequest],
    alone: dict[str, RequestEvents],
    known: Texts,
    seed: int,
    can_give_back: int,
) -> None:
    chance = random.Random(seed)
    with pytest.MonkeyPatch.context() as monkeypatch:
        masks = use(monkeypatch)
        limits: dict[str, Any] = {
            "num_slots": chance.randint(3, 12),
            "num_cells": chance.randint(110, 400),
            "context_length": 100,
            "max_rows": chance.choice([64, 512]),
            "draft_rows": chance.choice([1, 8]),
        }
        crowd = Bench(impatient(masks, seed, can_give_back, **limits))
        if chance.random() < 0.5:
            guess(crowd, known, chance)

        def may_go_on() -> bool:
            if chance.random() < 0.8:
                masks.find_all()
            return chance.random() < 0.97

        crowd.may_go_on = may_go_on
        cancelled = arrive(crowd, asked, chance, most_steps=3)
        while crowd.step() or crowd.scheduler.awaits_mask:
            if chance.random() < 0.5:
                masks.find_all()
        assert crowd.scheduler.is_idle
        crowd.scheduler.check()
        assert masks.num_awaited == 0, "no step waits for as long as a mask takes"
    check_answers(crowd, alone, cancelled)


def test_one_with_a_constraint_leaves_the_others_going() -> None:
    ran = runner(draft_rows=1)
    bench = Bench(ran)
    word = regex("[a-z ]{50}")
    stories = bench.run(plain(0, constraint=word), *(plain(number) for number in range(1, 5)))
    assert all(len(story.tokens[0]) == 20 for story in stories)
    assert ran.num_begun == {False: 1, True: 19}, "all but the first, which reads the prompts"


def test_slots_that_give_back_what_two_steps_compute_go_ahead_with_a_constraint() -> None:
    """A mask that comes late takes back the row that needs it, and the one that was begun after it."""
    word = regex("[a-z ]{50}")
    for can_give_back, is_ahead in ((1, False), (2, True)):
        ran = runner(draft_rows=1, can_give_back=can_give_back)
        [story] = Bench(ran).run(plain(0, constraint=word))
        assert len(story.tokens[0]) == 20
        assert (ran.num_begun[True] == 18) == is_ahead, (
            "all but the first, and the one after the prompt"
        )


def test_forced_tokens_are_taken_together_without_waiting_for_the_open_step() -> None:
    ran = runner(draft_rows=1)
    bench = Bench(ran)
    [story] = bench.run(
        plain(0, constraint=regex("[ab] and so on, [cd] and so forth"), max_tokens=99)
    )
    assert len(story.texts[0]) == 27
    assert ran.num_begun[False] == 1, "no step waited for another"
    assert bench.num_steps < 15
    assert ran.num_rows <= len("0 says: ") + 27 + 2, (
        "none twice; some after an end that was not foreseen"
    )


SO_ON = regex("([ab] and so on, [cd]: ){1,9}")
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"sampling": Sampling(temperature=1.2)},
    "penalties": {"sampling": Sampling(temperature=1.2, frequency_penalty=0.9)},
    "a bias": {"sampling": Sampling(temperature=1.2, logit_bias={ord("d"): 1.5})},
    "a ban": {"sampling": Sampling(temperature=1.2, logit_bias={ord("o"): -np.inf})},
    "a stop token": {"sampling": Sampling(temperature=1.2, stop_token_ids=(ord(","),))},
    "a stop": {"sampling": Sampling(temperature=1.2), "stop": ("so on, c",)},
    "scores": {"sampling": Sampling(temperature=1.2), "logprobs": 2, "n": 2},
}


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_forced_tokens_leave_the_draws_after_them_as_they_are(kind: str, goes_on: bool) -> None:
    """Those that are told ahead, and those of a step that is planned when none is open."""
    fields = KINDS[kind]
    for seed in range(6):
        sampling = msgspec.structs.replace(fields["sampling"], seed=seed)
        asked = {**fields, "sampling": sampling, "constraint": SO_ON, "max_tokens": 10 + 5 * seed}
        request, other = plain(seed, **asked), plain(99)
        bench = Bench(runner(draft_rows=1))
        bench.may_go_on = lambda: goes_on
        stories = bench.run(request, other)
        singles = [Bench(runner(rows_ahead=0)).run(each)[0] for each in (request, other)]
        assert [same(story) for story in stories] == [same(story) for story in singles]


@pytest.mark.parametrize("drafts", ["none", "of texts", "of a model"])
@pytest.mark.parametrize("goes_on", [True, False])
def test_nobody_waits_for_masks_that_are_not_found(
    monkeypatch: pytest.MonkeyPatch, goes_on: bool, drafts: str
) -> None:
    """A constraint that takes forever: the others get a token in every step. Whether to draft is asked for all."""
    slow = plain(0, constraint=regex("[a-z ]{50}"))
    [alone] = Bench(runner(rows_ahead=0)).run(slow)
    masks = use(monkeypatch)
    ran = impatient(masks, draft_rows=8 if drafts == "of texts" else 1)
    monkeypatch.setattr(ran.chance, "random", lambda: 1.0)  # nothing is found by waiting
    bench = Bench(ran)
    if drafts == "of a model":
        draft = DraftModel(FakeRunner())
        bench.scheduler = Scheduler(ran, bench.vocab, 64, lambda: 0.0, draft)
    bench.may_go_on = lambda: goes_on
    others = [plain(number) for number in range(1, 5)]
    for request in (slow, *others):
        bench.submit(request)
    while not all(bench.stories[request.request_id].done for request in others):
        assert bench.step()
    assert bench.num_steps <= 20 + 2
    assert len(bench.stories[slow.request_id].tokens[0]) == 1, (
        "the first mask is known from the start"
    )
    assert masks.num_awaited == 0
    while bench.step() or bench.scheduler.awaits_mask:
        masks.find_all()
    assert same(bench.stories[slow.request_id]) == same(alone)
    bench.scheduler.check()


def test_nobody_waits_for_the_mask_of_one_that_was_preempted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its tokens are read again as a prompt is, up to the row that needs the mask."""
    slow = plain(0, constraint=regex("[a-z ]{50}"))
    [alone] = Bench(runner(rows_ahead=0)).run(slow)
    masks = use(monkeypatch)
    ran = impatient(masks, num_cells=72, context_length=70)
    monkeypatch.setattr(ran.chance, "random", lambda: 1.0)  # nothing is found by waiting
    bench = Bench(ran)
    bench.submit(plain(1, max_tokens=60))  # it grows until there is no room for the other one
    bench.submit(slow)
    while bench.step():
        pass
    assert bench.scheduler.stats.preemptions == 1
    assert bench.scheduler.awaits_mask
    assert masks.num_awaited == 0
    while bench.step() or bench.scheduler.awaits_mask:
        masks.find_all()
    assert same(bench.stories[slow.request_id]) == same(alone)
    bench.scheduler.check()


def test_nobody_waits_for_the_mask_of_one_that_was_preempted_and_is_all_cached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same answer was given before, so that nothing is read again but the row that needs the mask."""
    slow = plain(0, constraint=regex("[a-z ]{50}"))
    masks = use(monkeypatch)
    ran = impatient(masks)
    monkeypatch.setattr(ran.chance, "random", lambda: 0.0)  # found while the step waits
    bench = Bench(ran)
    [before] = bench.run(msgspec.structs.replace(slow, request_id="before"))
    monkeypatch.setattr(ran.chance, "random", lambda: 1.0)  # nothing is found by waiting
    num_awaited = masks.num_awaited
    bench.submit(slow)
    while bench.step():
        pass
    [running] = bench.scheduler._state.running
    bench.scheduler._planner._preempt(Batch(), running)
    other = plain(1)
    bench.submit(other)
    while not bench.stories[other.request_id].done:
        assert bench.step()
    assert bench.scheduler.awaits_mask
    assert masks.num_awaited == num_awaited
    while bench.step() or bench.scheduler.awaits_mask:
        masks.find_all()
    assert bench.stories[slow.request_id].essence == before.essence
    bench.scheduler.check()


def test_full_lexers_show_in_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What others have read does not show, nor when masks are asked for."""
    monkeypatch.setattr("segue.engine.constraints.compiler.MAX_STATES", 400)
    # A token is drawn now and then from what the next one needs: the text ends in forced ones.
    tangled = regex("[ab]*a[ab]{12}c!{5}")
    sampling = [Sampling(seed=seed, logit_bias={ord("c"): -3.0}) for seed in range(4)]
    asked = [
        plain(i, constraint=tangled, sampling=each, max_tokens=90)
        for i, each in enumerate(sampling)
    ]
    alone = [Bench(runner(rows_ahead=0)).run(request)[0] for request in asked]
    together = Bench(runner(draft_rows=1)).run(*asked)
    assert [same(story) for story in together] == [same(story) for story in alone]


def test_one_that_is_often_late_goes_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row that comes too early is computed in vain."""
    masks = use(monkeypatch)
    ran = impatient(masks)
    monkeypatch.setattr(ran.chance, "random", lambda: 1.0)
    bench = Bench(ran)
    bench.submit(plain(0, constraint=regex("[a-z ]{100}"), max_tokens=100))
    while bench.step() or bench.scheduler.awaits_mask:
        masks.find_all()
    assert ran.num_begun[True] <= 100 // 8 + 2


class Panic(BaseException):
    """What a compiled library raises is no Exception."""


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("is_soon", [True, False])
@pytest.mark.parametrize("error", [ValueError, Panic])
def test_a_mask_that_cannot_be_found_fails_its_request_alone(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException], is_soon: bool, goes_on: bool
) -> None:
    """Whether that is known before the next step is planned, or only when its row is there."""
    find, count = Grammar.mask, iter(range(1000))

    def mask(self: Grammar, matcher: Any) -> Any:
        if next(count) == 5:
            raise error("no mask")
        return find(self, matcher)

    others = [plain(number) for number in range(1, 4)]
    alone = [Bench(runner(rows_ahead=0)).run(request)[0] for request in others]
    masks = use(monkeypatch)
    ran = impatient(masks)
    monkeypatch.setattr(ran.chance, "random", lambda: 0.0)  # found while the step waits
    bench = Bench(ran)

    def may_go_on() -> bool:
        if is_soon:
            masks.find_all()
        return goes_on

    bench.may_go_on = may_go_on
    unlucky = plain(0, constraint=regex("[a-z ]{50}"))
    for request in (unlucky, *others):
        bench.submit(request)
    monkeypatch.setattr(Grammar, "mask", mask)
    while bench.step() or bench.scheduler.awaits_mask:
        masks.find_all()
    failed = bench.stories[unlucky.request_id].failed
    assert failed is not None
    assert failed.code == "engine_fault"
    together = [bench.stories[request.request_id] for request in others]
    assert [same(story) for story in together] == [same(story) for story in alone]
    bench.scheduler.check()
