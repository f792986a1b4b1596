"""Drafts by the model's own layer change nothing but the number of steps."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from segue.engine.request.draft import Drafter
from segue.engine.scheduling.drafts.mtp import MtpProposer
from segue.engine.scheduling.drafts.payoff import Payoff
from segue.engine.scheduling.scheduler import Scheduler
from segue.engine.seam import Capabilities, Logits, Span
from segue.runners.fake import FakeRunner, _table
from segue.types import Sampling
from tests.engine.harness import Bench, ask
from tests.engine.scheduling.ahead_runner import runner
from tests.engine.scheduling.drafts.test_model import ARRIVALS, NEVER_PAYS, Always, check_outputs
from tests.engine.scheduling.drafts.test_model import bench as plain_bench


class MtpDrafting:
    """Implements seam.MtpDrafting for a fake model: its guesses are the model's own (seed 0), or others."""

    def __init__(self, model: FakeRunner, seed: int) -> None:
        self._model, self._table = model, _table(seed, 0.0)
        self._states: dict[int, list[int]] = {}  # by slot, after each token that is drafted
        self.num_rows = 0
        self.longest = 0

    @property
    def capabilities(self) -> Capabilities:
        return self._model.capabilities

    @property
    def cells_free(self) -> int:
        return self._model.cells_free

    def draft_step(self, spans: Sequence[Span]) -> Logits:
        self._model._check_closed("draft_step")
        rows = []
        for slot, (token,), past, num_logits, *_ in spans:
            held, drafts = self._model.slots[slot].states, self._states.setdefault(slot, [])
            assert (past, num_logits) == (len(held) + len(drafts), 1)
            drafts.append(((drafts or held)[-1] * 31 + token + 1) % 1_000_003)
            self.longest = max(self.longest, len(drafts))
            rows.append(self._table[drafts[-1] % len(self._table)])
        self.num_rows += len(rows)
        return np.array(rows, np.float32)

    def forget_drafts(self) -> None:
        self._states.clear()


def bench(
    seed: int, payoff: Payoff | None = None, target: FakeRunner | None = None
) -> tuple[Bench, MtpDrafting]:
    made = Bench(target or FakeRunner())
    ticks = itertools.count()
    assert isinstance(made.runner, FakeRunner)
    mtp = MtpDrafting(made.runner, seed)
    proposer = MtpProposer(mtp, payoff or Always())
    made.scheduler = Scheduler(made.runner, made.vocab, 64, lambda: float(next(ticks)), proposer)
    return made, mtp


@settings(max_examples=40, deadline=None)
@given(**ARRIVALS)
def test_outputs_are_those_without_it(seed: int, payoff: type[Payoff], **arrivals: Any) -> None:
    check_outputs(lambda target: bench(seed, payoff(), target)[0], **arrivals)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("can_give_back", [0, 8])
def test_a_layer_that_foresees_everything_is_always_right(
    temperature: float, can_give_back: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its drafts become as long as they can be."""
    monkeypatch.setattr(Drafter, "chances", lambda *_: [])
    own, mtp = bench(0, target=runner(can_give_back=can_give_back))
    sampling = Sampling(seed=1, temperature=temperature, ignore_eos=True)
    own.run(ask("abcdef", max_tokens=400, sampling=sampling))
    stats = own.scheduler.stats
    assert stats.draft_accepted == stats.draft_tokens
    assert mtp.longest == 7
    assert stats.steps < 80


def test_drafts_that_are_mostly_wrong_become_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """But now and then one is longer, to see if that would do again."""
    monkeypatch.setattr(Drafter, "chances", lambda *_: [])
    own, mtp = bench(1)
    own.run(ask("abcdef", **NEVER_PAYS))
    stats = own.scheduler.stats
    assert stats.draft_accepted < 0.2 * stats.draft_tokens
    drafts = stats.drafts
    assert drafts < mtp.num_rows < 1.2 * drafts


def test_steps_go_ahead_while_it_does_not_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Drafter, "chances", lambda *_: [])
    target = runner()
    own, mtp = bench(1, Payoff(), target)
    own.step_clock = lambda: own.num_steps + mtp.num_rows
    [story] = own.run(ask("abcdef", **NEVER_PAYS))
    [expected] = plain_bench(None).run(ask("abcdef", **NEVER_PAYS))
    assert story.essence == expected.essence
    assert 0 < own.scheduler.stats.drafts <= 4, "a trial"
    assert target.num_ahead > 0.95 * own.num_steps


def test_few_sequences_have_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many, rows of drafts would cost more than they give."""
    monkeypatch.setattr(Drafter, "chances", lambda *_: [])
    fields: dict[str, Any] = {"max_tokens": 20, "sampling": Sampling(seed=1, ignore_eos=True)}
    for count, most in ((4, 1), (2, 3)):
        own, mtp = bench(0)
        own.run(*(ask(f"{i} abc", **fields) for i in range(count)))
        assert mtp.longest >= most
    own, mtp = bench(0)
    own.run(*(ask(f"{i} abc", **fields) for i in range(5)))
    assert mtp.num_rows == 0


def test_without_free_cells_there_are_no_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Drafter, "chances", lambda *_: [])
    own, mtp = bench(0, target=runner(num_cells=24, context_length=24))
    [story] = own.run(ask("abcdef", max_tokens=16, sampling=Sampling(seed=1)))
    [expected] = plain_bench(None).run(ask("abcdef", max_tokens=16, sampling=Sampling(seed=1)))
    assert story.essence == expected.essence
    assert mtp.num_rows < 24
