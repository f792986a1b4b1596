"""A draft model changes nothing but the number of steps."""

import itertools
import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.engine.constraints import guide
from segue.engine.constraints.threads.fair_queue import Lexer
from segue.engine.constraints.threads.mask_threads import MaskThreads
from segue.engine.request.draft import Drafter
from segue.engine.sampling.sampler import Sampler
from segue.engine.scheduling import state
from segue.engine.scheduling.drafts.model import DraftModel
from segue.engine.scheduling.drafts.payoff import Payoff
from segue.engine.scheduling.scheduler import Scheduler
from segue.engine.seam import Logits, Runner, Span
from segue.runners.fake import EOS, FakeRunner, default_capabilities
from segue.types import CompletionRequest, Constraint, Sampling, Shift, Trigger
from tests.engine.harness import Bench, ask, ticking
from tests.engine.scheduling.ahead_runner import arrive, check_answers, runner


class Always(Payoff):
    def wants(self, num_sequences: int) -> bool:
        return True


class Rarely(Payoff):
    """Every third step, so that the draft model has to catch up."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = itertools.count()

    def wants(self, num_sequences: int) -> bool:
        return next(self._asked) % 3 == 0


class Padded(FakeRunner):
    """Its rows of logits have less padding than those of the model that it drafts for."""

    def decode(self, spans: Sequence[Span]) -> Logits:
        return super().decode(spans)[:, : EOS + 1]


class Spoilt(FakeRunner):
    """Its logits are no numbers."""

    def decode(self, spans: Sequence[Span]) -> Logits:
        return np.full_like(super().decode(spans), np.nan)


def bench(
    seed: int | None,
    payoff: Payoff | None = None,
    num_slots: int = 64,
    kind: type[FakeRunner] = FakeRunner,
    can_give_back: int = 0,
    target: Runner | None = None,
    context_length: int = 4096,
) -> Bench:
    """`seed`: of the draft model, 0 being the model itself; None: no draft model. With `can_give_back`, the model's
    slots cannot be trimmed. `target`: the model. `context_length`: of the draft model.
    """
    made = Bench(
        target, num_slots=num_slots, can_trim=not can_give_back, can_give_back=can_give_back
    )
    if seed is not None:
        ticks = itertools.count()
        small = default_capabilities(num_cells=512, context_length=context_length)
        small = replace(small, num_slots=made.capabilities.num_slots)
        draft = DraftModel(kind(small, seed=seed), payoff or Always())
        made.scheduler = Scheduler(made.runner, made.vocab, 64, lambda: float(next(ticks)), draft)
    return made


KINDS: tuple[dict[str, Any], ...] = (
    {"sampling": Sampling(seed=5, temperature=0.0)},
    {"sampling": Sampling(seed=5)},
    {"sampling": Sampling(seed=5, top_k=20, repetition_penalty=1.3, dry_multiplier=0.8)},
    {"sampling": Sampling(seed=6, mirostat=2)},
    {"sampling": Sampling(seed=6, temperature=0.0), "n": 3, "best_of": 4},
    {"sampling": Sampling(seed=7), "n": 2, "logprobs": 2},
    {"sampling": Sampling(seed=7), "constraint": Constraint(kind="regex", value="[a-f ]{4,30}")},
    {"sampling": Sampling(seed=8), "use_cache": False, "stop": ("e",)},
    {"sampling": Sampling(seed=8), "prompt_logprobs": 1, "echo": True},
)


CONTEXT = 64


def requests(plan: list[tuple[int, int, int]]) -> list[CompletionRequest]:
    """Some go on past their context."""
    how = Shift(num_kept=9)
    return [
        ask("some words " * length + str(kind), max_tokens=count, shift=how, **KINDS[kind])
        for kind, length, count in plan
    ]


ARRIVALS: dict[str, st.SearchStrategy[Any]] = {
    "plan": st.lists(
        st.tuples(st.integers(0, len(KINDS) - 1), st.integers(0, 5), st.integers(0, 40)),
        min_size=1,
        max_size=5,
    ),
    "seed": st.sampled_from([0, 1]),
    "payoff": st.sampled_from([Always, Rarely, Payoff]),
    "can_give_back": st.sampled_from([0, 1, 8]),
    "rows_ahead": st.sampled_from([0, 16]),
    "luck": st.integers(0, 2**32),
}


def roomy() -> Bench:
    return bench(None, target=FakeRunner(default_capabilities(context_length=CONTEXT)))


def check_outputs(
    helped_by: Callable[[FakeRunner], Bench],
    plan: list[tuple[int, int, int]],
    can_give_back: int,
    rows_ahead: int,
    luck: int,
) -> None:
    """Outputs are those without drafts, whoever comes, goes or is preempted meanwhile."""
    asked, chance = requests(plan), random.Random(luck)
    alone = {request.request_id: roomy().run(request)[0] for request in asked}
    target = runner(
        can_give_back=can_give_back,
        rows_ahead=rows_ahead,
        context_length=CONTEXT,
        num_slots=chance.choice([4, 64]),
        num_cells=chance.choice([75, 65536]),
    )
    helped = ticking(helped_by(target))
    helped.may_go_on = lambda: chance.random() < 0.9
    cancelled = arrive(helped, asked, chance, most_steps=4)
    helped.run()
    helped.scheduler.check()
    check_answers(helped, alone, cancelled)


@settings(max_examples=40, deadline=None)
@given(**ARRIVALS)
def test_outputs_are_those_without_one(seed: int, payoff: type[Payoff], **arrivals: Any) -> None:
    check_outputs(lambda target: bench(seed, payoff(), target=target), **arrivals)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("can_give_back", [0, 8])
def test_the_model_itself_as_its_draft_is_always_right(
    temperature: float, can_give_back: int
) -> None:
    """In greedy mode, and when sampling too: the draft is drawn with the same luck."""
    own = bench(0, can_give_back=can_give_back)
    own.run(ask("abcdef", max_tokens=60, sampling=Sampling(seed=1, temperature=temperature)))
    stats = own.scheduler.stats
    assert stats.drafts > 5
    assert stats.draft_accepted == stats.draft_tokens
    assert stats.steps < 30


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    "constraint",
    [
        Constraint(kind="regex", value="[a-z]{3}( [a-z]{4}){12}"),
        Constraint(kind="json_schema", value='{"type": "array", "minItems": 9, "items": {"type": "integer"}}'),
        Constraint(kind="gbnf", value='root ::= [a-z] " and so on" [a-z]{40}', triggers=(Trigger("pattern", "[a-z]"),)),
    ],
    ids=lambda constraint: constraint.kind,
)  # fmt: skip
def test_drafts_keep_to_the_constraint(
    temperature: float, constraint: Constraint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The draft model gets the same masks, so the model itself is always right here too."""
    monkeypatch.setattr(Drafter, "chances", lambda *_: [])  # no drafts of the text itself
    monkeypatch.setattr(guide, "_SCOUT_S", 60.0)
    monkeypatch.setattr(state, "_MASK_WAIT_S", 60.0)
    own, plain = bench(0), bench(None)
    fields: dict[str, Any] = {"max_tokens": 50, "constraint": constraint}
    fields["sampling"] = Sampling(seed=1, temperature=temperature)
    drafted, expected = (each.run(ask("abcdef", **fields)) for each in (own, plain))
    assert [story.essence for story in drafted] == [story.essence for story in expected]
    stats = own.scheduler.stats
    assert stats.drafts > 3
    assert stats.draft_accepted == stats.draft_tokens
    assert stats.steps < plain.scheduler.stats.steps


def test_a_constraint_with_slow_masks_gets_no_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(MaskThreads):
        """Never has a mask for a scout."""

        def submit(self, lexer: Lexer, find: Any, *args: Any) -> Future[Any]:
            return Future() if args else super().submit(lexer, find)

    monkeypatch.setattr(guide, "_THREADS", Late())
    monkeypatch.setattr(Drafter, "chances", lambda *_: [])
    own = bench(0)
    constraint = Constraint(kind="regex", value="[a-f]{30}")
    own.run(ask("abcdef", max_tokens=30, constraint=constraint, sampling=Sampling(seed=1)))
    stats = own.scheduler.stats
    assert (stats.drafts, stats.draft_tokens) == (1, 1)  # its first mask was there


BEYOND = (
    {"logit_bias": {EOS + 3: 1.0}},
    {"allowed_token_ids": (*b"abc", EOS + 3)},
    {"repetition_penalty": 1.3, "logit_bias": {EOS + 3: -np.inf}},
)


@pytest.mark.parametrize("sampling", BEYOND)
def test_tokens_that_the_draft_model_does_not_have(sampling: dict[str, Any]) -> None:
    """Files of one family are padded to other sizes: what a request says of such a token ended the worker."""
    fields: dict[str, Any] = {"max_tokens": 20, "sampling": Sampling(seed=3, **sampling)}
    own = bench(0, kind=Padded)
    [drafted], [expected] = (each.run(ask("abc", **fields)) for each in (own, bench(None)))
    assert drafted.essence == expected.essence
    assert own.scheduler.stats.draft_accepted > 5


@pytest.mark.parametrize("constraint", [None, KINDS[6]["constraint"]])
def test_a_draft_model_without_numbers_drafts_nothing(constraint: Constraint | None) -> None:
    fields: dict[str, Any] = {"max_tokens": 20, "constraint": constraint}
    spoilt = bench(0, kind=Spoilt)
    [drafted], [expected] = (each.run(ask("abc", **fields)) for each in (spoilt, bench(None)))
    assert drafted.essence == expected.essence


@pytest.mark.parametrize("method", ["scout", "guess"])
def test_a_draft_that_fails_is_none(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else's request ends with it, nor the one that it is for."""

    def fail(*_: Any) -> Any:
        raise ValueError("no draft")

    owner: type = guide.Guide if method == "scout" else Sampler
    asked = [ask(f"{i} abc", max_tokens=9, **KINDS[6]) for i in range(2)]
    expected = bench(None).run(*asked)
    monkeypatch.setattr(owner, method, fail)
    drafted = bench(0).run(*asked)
    assert [story.essence for story in drafted] == [story.essence for story in expected]


def test_another_model_is_mostly_wrong_and_costs_no_more_steps() -> None:
    plain, drafted = bench(None), bench(1)
    for each in (plain, drafted):
        each.run(ask("abcdef", max_tokens=60, sampling=Sampling(seed=1, temperature=0.0)))
    assert drafted.scheduler.stats.draft_accepted < drafted.scheduler.stats.draft_tokens
    assert drafted.scheduler.stats.steps <= plain.scheduler.stats.steps


def test_a_draft_model_short_of_memory_drafts_for_some() -> None:
    """512 cells for twelve texts of a hundred tokens: it forgets those of others and reads them again."""
    own = bench(0)
    texts = [ask(f"{i} " + "text " * 20, max_tokens=20) for i in range(12)]
    expected = bench(None).run(*[replace_id(text) for text in texts])
    assert [s.essence for s in own.run(*texts)] == [s.essence for s in expected]


def replace_id(request: CompletionRequest) -> CompletionRequest:
    (part,) = request.prompts[0].parts
    assert isinstance(part, str)
    return ask(part, max_tokens=request.max_tokens, sampling=request.sampling)


class Slow:
    """A clock for steps, by which a step takes longer by each that the draft model ran."""

    def __init__(self, bench: Bench, draft: FakeRunner) -> None:
        self._bench, self._draft = bench, draft

    def __call__(self) -> float:
        return self._bench.num_steps + self._draft.num_rows


NEVER_PAYS: dict[str, Any] = {"max_tokens": 400, "sampling": Sampling(seed=1, ignore_eos=True)}


def test_steps_go_ahead_while_the_draft_model_does_not_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a server with a draft model that never pays would be slower than one without."""
    monkeypatch.setattr(Drafter, "chances", lambda *_: [])
    target = runner()
    own = bench(1, Payoff(), target=target)
    draft = own.scheduler._state.proposer
    assert isinstance(draft, DraftModel)
    own.step_clock = Slow(own, draft._runner)  # type: ignore[arg-type]
    [story] = own.run(ask("abcdef", **NEVER_PAYS))
    [expected] = bench(None).run(ask("abcdef", **NEVER_PAYS))
    assert story.essence == expected.essence
    num_drafted = own.scheduler.stats.drafts
    assert 0 < num_drafted <= 4, "a trial"
    assert target.num_ahead > 0.95 * own.num_steps


@pytest.mark.parametrize("payoff", [Always, Payoff])
def test_steps_go_ahead_where_the_draft_model_can_draft_nothing(
    payoff: type[Payoff], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its context is too short for the text: that it is wanted says nothing then."""
    monkeypatch.setattr(Drafter, "chances", lambda *_: [])
    target = runner()
    own = ticking(bench(0, payoff(), target=target, context_length=8))
    own.run(ask("abcdef ghi", **NEVER_PAYS))
    assert own.scheduler.stats.drafts == 0
    assert target.num_ahead > 0.9 * own.num_steps


def test_a_draft_model_that_fails_does_not_keep_steps_from_going_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Drafter, "chances", lambda *_: [])
    target = runner()
    spoilt = ticking(bench(0, Payoff(), kind=Spoilt, target=target))
    spoilt.run(ask("abcdef", **NEVER_PAYS))
    assert target.num_ahead > 0.9 * spoilt.num_steps


def test_what_it_reads_late_does_not_count_against_its_drafts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It reads a long prompt once, while steps run: what that takes says nothing about drafts."""
    monkeypatch.setattr(Drafter, "chances", lambda *_: [])
    own = bench(0, Payoff(), target=runner())
    draft = own.scheduler._state.proposer
    assert isinstance(draft, DraftModel)
    rows = draft._runner
    assert isinstance(rows, FakeRunner)
    own.step_clock = lambda: own.num_steps + 0.1 * rows.num_rows
    own.run(ask("abc " * 60, **NEVER_PAYS | {"max_tokens": 200}))
    assert own.num_steps < 80


def test_forced_tokens_go_ahead_beside_a_draft_model() -> None:
    """It has no drafts where a constraint forces what comes."""
    target = runner()
    own = ticking(bench(0, Always(), target=target))
    forced = Constraint(kind="choice", value=("all that comes is known before it comes" * 3,))
    own.run(ask("abc", max_tokens=117, constraint=forced, sampling=Sampling(seed=1)))
    assert target.num_ahead > 0
