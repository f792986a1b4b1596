"""Drafts by made-up times of steps: as many as pay, whatever was believed before and however noisy the times are."""

import random
from collections import Counter
from statistics import mean
from typing import NamedTuple

import pytest

from segue.engine.scheduling.drafts import costs as module
from segue.engine.scheduling.drafts.costs import SIZES, DraftCosts, Kind

MEMORY = {2: 1.03, 4: 1.15, 8: 1.43, 16: 2.51}  # as measured: one row more costs little
ARITHMETIC = {2: 2.0, 4: 4.0, 8: 8.0, 16: 16.0}  # each row costs as much as the first
BETWEEN = {2: 1.1, 4: 1.3, 8: 2.6, 16: 5.0}  # four rows pay, more do not
CURVES = (MEMORY, ARITHMETIC, BETWEEN)
COPY = [0.95**n for n in range(1, 16)]
DOUBTFUL = [0.3 * 0.7**n for n in range(15)]
HOPELESS = [0.02 * 0.7**n for n in range(15)]


class Machine(NamedTuple):
    rows: dict[int, float]  # what so many rows cost; one row costs 1
    stop: float = 0.05  # what a step costs more that was not begun ahead
    noise: float = 0.0  # sigma of the logarithm
    speed: float = 1.0

    def seconds(self, num_rows: int, kind: Kind, chance: random.Random) -> float:
        cost = 1.0 if num_rows == 1 else self.rows[num_rows]
        cost += self.stop * (kind == "begun")
        return cost / self.speed * chance.lognormvariate(0, self.noise)


class Run(NamedTuple):
    drafted: Counter[int]  # steps by their number of draft tokens
    speed: float  # tokens in the time of a step without drafts, as expected

    def share(self, *counts: int) -> float:
        """Of steps that had one of these numbers of draft tokens."""
        return sum(self.drafted[count] for count in counts) / self.drafted.total()


def run(
    costs: DraftCosts, machine: Machine, chances: list[float], num_steps: int, seed: int = 0
) -> Run:
    """One sequence, whose steps go ahead while there is no draft."""
    chance, drafted, tokens, took = random.Random(seed), Counter[int](), 0.0, 0.0
    is_ahead = False
    for _ in range(num_steps):
        count = costs.num_drafted(1, chances, is_ahead)
        if count and is_ahead:
            is_ahead = False
            count = costs.num_drafted(1, chances, is_ahead)
        kind: Kind = "drafted" if count else "plain" if is_ahead else "begun"
        costs.learn(1, 1 + count, kind, machine.seconds(1 + count, kind, chance))
        is_ahead = not count
        drafted[count] += 1
        tokens += 1 + sum(chances[:count])
        took += machine._replace(noise=0.0).seconds(1 + count, kind, chance) * machine.speed
    return Run(drafted, tokens / took)


def best(machine: Machine, chances: list[float]) -> float:
    """How fast it is with the best number of draft tokens in every step, or with none."""
    speeds = ((1 + sum(chances[: rows - 1])) / machine.rows[rows] for rows in SIZES)
    return max(1.0, *speeds)


@pytest.mark.parametrize("rows", CURVES)
@pytest.mark.parametrize("chances", [COPY, DOUBTFUL, HOPELESS])
@pytest.mark.parametrize("believed", [*CURVES, None])
def test_the_fastest_number_is_found_whatever_was_believed(
    rows: dict[int, float], chances: list[float], believed: dict[int, float] | None
) -> None:
    costs, machine = DraftCosts(), Machine(rows)
    if believed is not None:
        run(costs, Machine(believed), COPY, 600)
    run(costs, machine, chances, 1200)
    assert run(costs, machine, chances, 1000).speed > 0.93 * best(machine, chances)


@pytest.mark.parametrize("hoped", [0.0, 0.06, 0.2])
def test_a_wrong_guess_at_the_beginning_costs_a_few_steps(
    hoped: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HOPED", hoped)
    for rows in (ARITHMETIC, BETWEEN):
        machine = Machine(rows)
        assert run(DraftCosts(), machine, COPY, 200).speed > 0.8 * best(machine, COPY)


@pytest.mark.parametrize("chances", [COPY, DOUBTFUL, HOPELESS])
def test_where_drafts_do_not_pay_they_are_tried_rarely(chances: list[float]) -> None:
    costs, machine = DraftCosts(), Machine(ARITHMETIC, stop=0.2)
    run(costs, machine, chances, 100)
    ran = run(costs, machine, chances, 5000)
    assert ran.share(0) > 0.98
    assert ran.speed > 0.98, "all that is tried costs one step in fifty at most"


@pytest.mark.parametrize("rows", CURVES)
@pytest.mark.parametrize("chances", [COPY, DOUBTFUL])
def test_noise_costs_little(rows: dict[int, float], chances: list[float]) -> None:
    """One step in three takes 0.7 times as long as others, or 1.4 times. What pays little may be left out then."""
    machine, speeds = Machine(rows, noise=0.35), []
    for seed in range(8):
        costs = DraftCosts()
        run(costs, machine, chances, 100, seed)
        speeds.append(run(costs, machine, chances, 1000, seed + 1).speed)
    assert mean(speeds) > max(0.97, 0.8 * best(machine, chances))
    assert min(speeds) > 0.93, "hardly ever slower than without"


def test_noise_does_not_make_it_change_its_mind() -> None:
    for seed in range(5):
        for rows, share in ((MEMORY, 0.97), (ARITHMETIC, 0.97)):
            costs = DraftCosts()
            run(costs, Machine(rows, noise=0.35), COPY, 100, seed)
            ran = run(costs, Machine(rows, noise=0.35), COPY, 1000, seed)
            assert ran.share(*((3, 7, 15) if rows is MEMORY else (0,))) > share


def test_a_machine_that_becomes_slower_changes_nothing() -> None:
    """In the middle of a long copy, where nearly no step is one to compare with."""
    costs = DraftCosts()
    run(costs, Machine(MEMORY), COPY, 1000)
    for speed in (0.2, 5.0):
        ran = run(costs, Machine(MEMORY, speed=speed), COPY, 1000)
        assert ran.share(7, 15) > 0.95


def test_a_copy_without_end_is_compared_now_and_then_with_steps_without_drafts() -> None:
    costs = DraftCosts()
    run(costs, Machine(MEMORY), COPY, 100)
    ran = run(costs, Machine(MEMORY), COPY, 3000)
    assert 0.005 < ran.share(0) < 0.02
    later = run(costs, Machine(ARITHMETIC), COPY, 3000)
    assert later.share(0) > 0.5, "that is how it learns that they do not pay any more"


def test_where_nothing_can_be_compared_drafts_go_on() -> None:
    """Beside prompts that are read all the time: then no step is reported."""
    costs = DraftCosts()
    run(costs, Machine(MEMORY), COPY, 100)
    for _ in range(300):
        costs.learn(1, 8, "drafted", 1.43)
    counts = [costs.num_drafted(1, COPY, False) for _ in range(100)]
    assert counts.count(7) > 90


def test_what_ends_steps_that_go_ahead_must_be_worth_that() -> None:
    """A likely draft of one token pays by itself, but not if each costs two steps their head start."""
    chances = [0.4]
    costs, dear = DraftCosts(), DraftCosts()
    for each, stop in ((costs, 0.0), (dear, 0.5)):
        for _ in range(9):
            each.learn(1, 1, "plain", 1.0)
            each.learn(1, 1, "begun", 1.0 + stop)
            each.learn(1, 2, "drafted", 1.03)
    assert costs.num_drafted(1, chances, True) == 1
    assert dear.num_drafted(1, chances, True) == 0
    assert dear.num_drafted(1, COPY, True) == 3, "a longer one does"


def test_several_sequences_share_the_rows() -> None:
    costs = DraftCosts()
    assert costs.num_drafted(3, [0.9] * 5, False) == 1, "the smallest first"
    for _ in range(9):
        costs.learn(3, 3, "plain", 1.0)
        costs.learn(3, 4, "drafted", 1.05)
        costs.learn(3, 8, "drafted", 1.3)
    assert costs.num_drafted(3, [0.9] * 5, False) == 5, "three rows and five drafts are eight"
    assert costs.num_drafted(3, [0.9] * 4, False) == 1, "four rows are taken, not seven"
    assert costs.num_drafted(3, [], False) == 0
    assert costs.num_drafted(16, [0.9] * 4, False) == 0
    for _ in range(9):
        costs.learn(8, 8, "plain", 1.0)
        costs.learn(8, 16, "drafted", 2.0)
    assert costs.num_drafted(8, [0.9] * 8, False) == 0, "each row costs what it gives"
    assert costs.num_drafted(3, [0.9] * 5, False) == 5, "which says nothing of three sequences"


def test_steps_of_no_time_say_nothing() -> None:
    """As clocks of few digits may tell."""
    costs = DraftCosts()
    costs.learn(1, 1, "plain", 0.0)
    costs.learn(1, 8, "drafted", 0.0)
    assert costs.num_drafted(1, COPY, False) == 1
