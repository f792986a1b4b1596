"""Whether a draft model pays: by made-up times of steps."""

import random

from segue.engine.scheduling.drafts.costs import Kind
from segue.engine.scheduling.drafts.payoff import Payoff

STOP = 0.5  # of a step: how much longer one takes that is begun while no other is open


def steps(
    payoff: Payoff, drafted_s: float, plain_s: float, count: int, *, goes_ahead: bool = True
) -> int:
    """How many of so many steps had drafts. Each gives a token."""
    num_drafted, is_open = 0, False
    for _ in range(count):
        kind: Kind = "plain"
        if payoff.wants(1):
            kind, is_open = "drafted", False
        elif not is_open:
            kind, is_open = "begun", goes_ahead
        num_drafted += kind == "drafted"
        seconds = drafted_s if kind == "drafted" else plain_s * (1 + STOP * (kind == "begun"))
        payoff.learn(1, kind, seconds, 1)
    return num_drafted


def test_what_pays_is_done_and_what_does_not_is_tried_ever_less_often() -> None:
    assert steps(Payoff(), 1.0, 2.0, 1000) > 950
    assert steps(Payoff(), 2.0, 1.0, 1000) < 20
    assert steps(Payoff(), 1.0, 1.0, 1000) < 50


def test_a_step_that_is_begun_alone_is_not_what_drafts_are_compared_with() -> None:
    """It takes longer, but only the first: with drafts in every step each would."""
    assert steps(Payoff(), 1.2, 1.0, 1000) < 50
    assert steps(Payoff(), 0.9, 1.0, 1000) > 900


def test_where_no_step_goes_ahead_those_count() -> None:
    assert steps(Payoff(), 1.2, 1.0, 1000, goes_ahead=False) > 900
    assert steps(Payoff(), 1.6, 1.0, 1000, goes_ahead=False) < 50


def test_asking_changes_nothing() -> None:
    payoff = Payoff()
    assert not any(payoff.wants(1) for _ in range(1000))


def test_it_turns_when_the_costs_do() -> None:
    payoff = Payoff()
    steps(payoff, 2.0, 1.0, 300)
    assert steps(payoff, 1.0, 2.0, 1000) > 500
    assert steps(payoff, 3.0, 2.0, 1000) < 200


def test_few_and_many_sequences_are_measured_apart() -> None:
    payoff = Payoff()
    steps(payoff, 2.0, 1.0, 50)
    assert not payoff.wants(1)
    for _ in range(3):
        payoff.learn(8, "plain", 1.0, 8)
    assert payoff.wants(8)


def share(seconds: float, seed: int) -> float:
    """The share of 2,000 steps with drafts: these take so long and give one token or six, others one in a second."""
    payoff, chance, num_drafted = Payoff(), random.Random(seed), 0
    for _ in range(2000):
        if payoff.wants(1):
            num_drafted += 1
            payoff.learn(1, "drafted", seconds, chance.choice([1, 6]))
        else:
            payoff.learn(1, "plain", 1.0, 1)
    return num_drafted / 2000


def test_tokens_of_all_steps_count_not_those_of_the_usual_step() -> None:
    """3.5 tokens in two seconds, though a step of one token is slower than one without drafts."""
    for seed in range(5):
        assert share(2.0, seed) > 0.8
        assert share(4.0, seed) < 0.1


def test_the_more_a_trial_loses_the_longer_is_the_pause() -> None:
    """So that all trials together lose a few tokens in a hundred, however slow the draft model is."""
    for slow in (3.0, 10.0, 30.0):
        payoff = Payoff()
        num_drafted = steps(payoff, slow, 1.0, 2000)
        assert num_drafted * (slow - 1) < 0.05 * 2000 + 3 * slow


def test_what_is_read_before_a_trial_is_lost_too() -> None:
    payoff = Payoff()
    steps(payoff, 2.0, 1.0, 3)
    for _ in range(5):
        payoff.learn(1, "catching up", 10.0, 1)
    assert steps(payoff, 2.0, 1.0, 1500) <= 3
