"""Prompts beside running streams: steps stay short, prompts are read on, and answers stay the same."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest

from segue.engine.scheduling.pace import Pace
from segue.engine.seam import Draw, Logits, Span, Step
from segue.runners.fake import FakeRunner, default_capabilities
from segue.types import CompletionRequest, Sampling
from tests.engine.constraints.guided import regex
from tests.engine.harness import Bench, ask
from tests.engine.scheduling.ahead_runner import same

CHUNK, LEAST = 256, 16
TARGET_S, TIMES = 0.125, 4
FIRST, LONGEST_S = 64, 10.0
LENGTH = 3000


class Cost(NamedTuple):
    step_s: float
    row_s: float

    def of(self, num_rows: int) -> float:
        return self.step_s + num_rows * self.row_s

    def bound_s(self, num_decoding: int) -> float:
        return max(TARGET_S, TIMES * self.of(num_decoding))


FAST = Cost(0.0005, 0.00001)
SMALL = Cost(0.007, 0.0015)
LARGE = Cost(0.05, 0.01)
HUGE = Cost(0.5, 0.08)
GIANT = Cost(2.0, 0.6)  # a whole chunk would take longer than `--step-timeout`


class Machine(FakeRunner):
    """Its steps take as long as their cost, by a clock of its own."""

    def __init__(self, cost: Cost, rows_ahead: int = 0) -> None:
        limits = default_capabilities(
            num_slots=64, max_rows=CHUNK + 64, draft_rows=2, rows_ahead=rows_ahead
        )
        super().__init__(replace(limits, draws=rows_ahead > 0))
        self.cost = cost
        self.now_s = 0.0
        self.num_ahead = 0
        self.steps: list[list[int]] = []  # tokens of each span
        self._begun: list[list[int]] = []

    def decode(self, spans: Sequence[Span]) -> Logits:
        self._take([len(span.tokens) for span in spans])
        return super().decode(spans)

    def begin(self, spans: Sequence[Span], draws: Sequence[Draw]) -> None:
        self.num_ahead += len(self._begun)
        self._begun.append([len(span.tokens) for span in spans])
        super().begin(spans, draws)

    def end(self) -> Step:
        self._take(self._begun.pop(0))
        return super().end()

    def _take(self, sizes: list[int]) -> None:
        self.now_s += self.cost.of(sum(sizes))
        self.steps.append(sizes)


def bench(machine: Machine, chunk_rows: int = CHUNK) -> Bench:
    made = Bench(machine, chunk_rows=chunk_rows)
    made.step_clock = lambda: machine.now_s
    return made


def stream(number: int = 0, max_tokens: int = 2000) -> CompletionRequest:
    sampling = Sampling(seed=number, ignore_eos=True)
    return ask(f"{number} streams", max_tokens=max_tokens, sampling=sampling)


def prompt(name: str = "p", length: int = LENGTH, max_tokens: int = 1) -> CompletionRequest:
    return ask(name + "y" * (length - 1), max_tokens=max_tokens, sampling=Sampling(seed=1))


def streaming(machine: Machine, num_streams: int, chunk_rows: int = CHUNK) -> Bench:
    """So many streams, each with some tokens already."""
    made = bench(machine, chunk_rows)
    made.may_go_on = lambda: False
    for number in range(num_streams):
        made.submit(stream(number))
    for _ in range(12):
        made.step()
    machine.steps.clear()
    return made


def finish(made: Bench, request: CompletionRequest) -> None:
    while made.stories[request.request_id].done is None:
        assert made.step()


@pytest.mark.parametrize("num_streams", [1, 8, 32])
@pytest.mark.parametrize("cost", [FAST, SMALL, LARGE, HUGE])
def test_streams_wait_for_a_bounded_time_while_a_prompt_is_read(
    cost: Cost, num_streams: int
) -> None:
    machine = Machine(cost)
    made, read = streaming(machine, num_streams), prompt()
    made.submit(read)
    begun_s = machine.now_s
    finish(made, read)
    assert all(len(sizes) > num_streams for sizes in machine.steps), "the prompt is in every step"
    assert all(min(sizes) == 1 for sizes in machine.steps[:-1]), "and so is every stream"
    took_s = max(cost.of(sum(sizes)) for sizes in machine.steps)
    assert took_s <= 1.01 * cost.bound_s(num_streams)
    alone_s = LENGTH / CHUNK * cost.of(CHUNK)
    assert machine.now_s - begun_s < 1.7 * alone_s, "at most what streams take besides"


def test_a_fast_machine_reads_whole_chunks() -> None:
    machine = Machine(FAST)
    made, read = streaming(machine, 8), prompt()
    made.submit(read)
    finish(made, read)
    assert len(machine.steps) == -(-LENGTH // CHUNK)


@pytest.mark.parametrize("cost", [SMALL, LARGE])
def test_whole_chunks_while_nobody_decodes(cost: Cost) -> None:
    machine = Machine(cost)
    made = bench(machine)
    made.run(stream(max_tokens=9))  # something is known of steps
    machine.steps.clear()
    made.run(prompt("a"))
    made.run(prompt("b"))
    assert len(machine.steps) == 2 * -(-LENGTH // CHUNK)


def test_steps_stay_short_while_nobody_decodes() -> None:
    """The first is short too, though nothing is known: a worker that is ended for it knows nothing again."""
    machine = Machine(GIANT)
    bench(machine).run(prompt())
    first, *others = [sum(sizes) for sizes in machine.steps]
    assert first == FIRST
    assert max(others) * GIANT.row_s <= LONGEST_S
    assert min(others[:-1]) == LEAST


@pytest.mark.parametrize("num_streams", [1, 32])
def test_a_giant_model_does_not_let_streams_wait_for_a_whole_chunk(num_streams: int) -> None:
    machine = Machine(GIANT)
    made, read = streaming(machine, num_streams), prompt(length=400)
    made.submit(read)
    finish(made, read)
    longest_s = max(GIANT.of(sum(sizes)) for sizes in machine.steps)
    assert longest_s <= GIANT.of(num_streams) + LONGEST_S


def test_a_prompt_is_read_on_however_slow_steps_are() -> None:
    """Nothing is known yet of steps without prompts, and each seems to take longer than the one before."""
    machine = Machine(SMALL)
    made, first, read = bench(machine), stream(), prompt()
    made.submit(first)
    made.step()
    made.submit(read)
    while made.stories[read.request_id].done is None:
        machine.cost = Cost(1.2 * machine.cost.step_s, 1.2 * machine.cost.row_s)
        made.step()
    sizes = [max(step) for step in machine.steps[1:-1]]
    assert min(sizes) == LEAST


def test_the_limit_of_rows_stays_the_upper_bound() -> None:
    for cost in (FAST, HUGE):
        machine = Machine(cost)
        made, read = streaming(machine, 2, chunk_rows=8), prompt(length=400)
        made.submit(read)
        finish(made, read)
        assert max(map(max, machine.steps)) == 8


@pytest.mark.parametrize("tenant", ["", "other"])
def test_a_short_prompt_passes_a_long_one_in_small_chunks_too(tenant: str) -> None:
    machine = Machine(LARGE)
    made, read = streaming(machine, 1), prompt()
    made.submit(read)
    for _ in range(4):
        made.step()
    assert max(machine.steps[-1]) < CHUNK // 8, (
        "where a part of a whole chunk would be all there is"
    )
    short = ask("short", max_tokens=1, tenant=tenant)
    made.submit(short)
    num_steps = len(machine.steps)
    finish(made, short)
    assert len(machine.steps) - num_steps <= 2
    assert all(len(sizes) == 3 for sizes in machine.steps[num_steps:]), "the long one goes on too"


def test_nobody_starves_in_a_crowd() -> None:
    """Prompts that keep coming, and streams that never end: all go on."""
    machine = Machine(SMALL)
    made = streaming(machine, 6)
    asked = []
    for number in range(30):
        asked.append(prompt(f"{number:02}", 40 + 90 * (number % 5), max_tokens=20))
        made.submit(asked[-1])
        made.step()
        assert machine.steps[-1].count(1) >= 6, "every stream has its row"
        assert max(machine.steps[-1]) > 1, "and some prompt more"
    made.run()
    assert all(made.stories[request.request_id].done for request in asked)


LITERAL = regex("0123456789 and so on " * 12)  # every token of it is forced


def crowd() -> list[CompletionRequest]:
    return [
        stream(1, 60),
        ask("abcabcabcabc", max_tokens=50, sampling=Sampling(seed=2, temperature=0)),
        ask("held", max_tokens=200, constraint=LITERAL),
        ask("masked", max_tokens=30, constraint=regex("[a-d]{30}"), sampling=Sampling(seed=3)),
        prompt("a", 700, max_tokens=9),
        ask("scored" * 60, max_tokens=4, prompt_logprobs=1),
        prompt("b", 300, max_tokens=9),
        ask("several", n=3, max_tokens=12, sampling=Sampling(seed=5)),
    ]


@pytest.mark.parametrize("rows_ahead", [0, 32])
@pytest.mark.parametrize("cost", [SMALL, HUGE])
def test_answers_are_those_of_whole_chunks(cost: Cost, rows_ahead: int) -> None:
    """Forced tokens, drafts, masks and scores among them; and steps are begun ahead as before."""
    asked = crowd()
    whole = Bench(Machine(FAST, rows_ahead), chunk_rows=CHUNK).run(*asked)
    machine = Machine(cost, rows_ahead)
    made = bench(machine)
    for request in asked:
        made.submit(request)
        made.step()
    made.run()
    assert [same(made.stories[request.request_id]) for request in asked] == [*map(same, whole)]
    assert (machine.num_ahead > 0) == (rows_ahead > 0)


@pytest.mark.parametrize("seed", range(5))
def test_durations_of_any_kind_do_no_harm(seed: int) -> None:
    """Clocks that stand still, jump, or go back: all requests end as they do without."""
    drawn = random.Random(seed)
    made, asked = Bench(chunk_rows=64, num_cells=3000), crowd()
    made.step_clock = lambda: drawn.choice([0.0, drawn.random(), 1e6 * drawn.random()])
    got = made.run(*asked)
    assert [*map(same, got)] == [*map(same, Bench(chunk_rows=64).run(*asked))]


# --- what is learned ------------------------------------------------------------------------------


def taught(cost: Cost, num_decoding: int = 1) -> Pace:
    pace = Pace(CHUNK)
    pace.learn(CHUNK, CHUNK, cost.of(CHUNK))
    for _ in range(5):
        pace.learn(num_decoding, 0, cost.of(num_decoding))
    return pace


def test_nothing_known_a_first_step_of_few_rows() -> None:
    assert Pace(CHUNK).rows(0) == Pace(CHUNK).rows(1) == FIRST
    assert Pace(8).rows(0) == 8


def test_nobody_decodes_as_many_rows_as_the_longest_step_takes() -> None:
    assert taught(LARGE).rows(0) == CHUNK
    assert CHUNK > taught(HUGE).rows(0) > 0.9 * LONGEST_S / HUGE.row_s
    assert taught(GIANT).rows(0) == LEAST


def test_rows_that_fit() -> None:
    assert taught(Cost(0.0, 0.001)).rows(1) == 124
    assert taught(Cost(0.0, 0.1)).rows(1) == LEAST
    assert taught(Cost(0.064, 0.001), 1).rows(1) == 156, "four times 65 ms, less those"


def test_one_step_that_was_held_up_changes_little() -> None:
    pace = taught(SMALL)
    usual = pace.rows(1)
    pace.learn(1, 0, 3.0)
    assert pace.rows(1) == usual


def test_what_rows_cost_is_followed() -> None:
    pace = taught(SMALL)
    before = pace.rows(1)
    for _ in range(8):
        rows = pace.rows(1)
        pace.learn(rows + 1, rows, Cost(SMALL.step_s, 2 * SMALL.row_s).of(rows + 1))
    assert 0.4 * before < pace.rows(1) < 0.6 * before


def test_short_prompts_say_little_of_long_ones() -> None:
    """A prompt that was cached but for a token costs a whole step for that token."""
    pace = taught(SMALL)
    before = pace.rows(1)
    for _ in range(20):
        pace.learn(1, 1, SMALL.of(1))
    assert pace.rows(1) > 0.5 * before


def test_more_streams_than_were_ever_alone() -> None:
    """What they would take without prompts is guessed, or prompts would hardly get any time beside many."""
    pace, known = taught(LARGE), taught(LARGE, 32)
    assert pace.rows(32) == pytest.approx(known.rows(32), rel=0.25)
    fresh = Pace(CHUNK)
    fresh.learn(CHUNK, CHUNK, LARGE.of(CHUNK))
    assert fresh.rows(32) == pytest.approx(known.rows(32), rel=0.35)
