"""Drafts from texts in a scheduler whose runner takes a made-up time for each step."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from segue.engine.seam import Draw, Logits, Span, Step
from segue.runners.fake import default_capabilities
from segue.types import CompletionRequest, Sampling
from tests.engine.harness import Bench, ask
from tests.engine.scheduling.ahead_runner import AheadRunner

CHEAP = {1: 1.0, 2: 1.03, 4: 1.15, 8: 1.43, 16: 2.51}
DEAR = {rows: float(rows) for rows in range(1, 17)}


class Machine(AheadRunner):
    """Copies a passage over and over. Its steps take as long as their number of rows says."""

    def __init__(self, costs: dict[int, float], draft_rows: int, can_give_back: int = 0) -> None:
        limits = default_capabilities(draft_rows=draft_rows, rows_ahead=16)
        limits = replace(limits, can_trim=not can_give_back, can_give_back=can_give_back)
        super().__init__(limits, 0, 0.0, b"the quick brown fox jumps over a lazy dog. ")
        self._costs = costs
        self.now_s = 0.0
        self.sizes = Counter[int]()  # of steps without prompts, by their rows
        self._begun: list[int] = []

    def decode(self, spans: Sequence[Span]) -> Logits:
        self._take(sum(len(span.tokens) for span in spans))
        return super().decode(spans)

    def begin(self, spans: Sequence[Span], draws: Sequence[Draw]) -> None:
        self._begun.append(sum(len(span.tokens) for span in spans))
        super().begin(spans, draws)

    def end(self) -> Step:
        self._take(self._begun.pop(0))
        return super().end()

    def _take(self, num_rows: int) -> None:
        self.sizes[num_rows] += 1
        least = min((cost for rows, cost in self._costs.items() if rows >= num_rows), default=99.0)
        self.now_s += least


def bench(machine: Machine) -> Bench:
    made = Bench(machine)
    made.step_clock = lambda: machine.now_s
    return made


def copied(number: int = 0) -> CompletionRequest:
    sampling = Sampling(seed=number, temperature=0.0, ignore_eos=True)
    return ask(f"{number}", max_tokens=1500, sampling=sampling)


@pytest.mark.parametrize("can_give_back", [0, 8])
def test_a_copy_is_drafted_in_steps_of_as_many_rows_as_pay(can_give_back: int) -> None:
    machine, plain = Machine(CHEAP, 16, can_give_back), Machine(CHEAP, 1, can_give_back)
    drafted, expected = bench(machine), bench(plain)
    [story], [other] = drafted.run(asked := copied()), expected.run(asked)
    assert story.essence == other.essence
    assert machine.sizes.most_common(1)[0][0] in ((8,) if can_give_back else (8, 16))
    assert plain.now_s > 4 * machine.now_s
    stats = drafted.scheduler.stats
    assert stats.draft_accepted > 0.9 * stats.draft_tokens


def test_where_each_row_costs_a_step_hardly_any_is_drafted() -> None:
    machine, plain = Machine(DEAR, 16), Machine(DEAR, 1)
    [story], [other] = bench(machine).run(asked := copied()), bench(plain).run(asked)
    assert story.essence == other.essence
    assert machine.sizes[1] > 0.9 * machine.sizes.total()
    assert machine.now_s < 1.02 * plain.now_s


def test_several_copies_share_the_rows_of_a_step() -> None:
    machine, plain = Machine(CHEAP | {3: 1.1}, 8), Machine(CHEAP | {3: 1.1}, 1)
    asked = [copied(number) for number in range(3)]
    drafted, expected = bench(machine).run(*asked), bench(plain).run(*asked)
    assert [s.essence for s in drafted] == [s.essence for s in expected]
    assert machine.sizes.most_common(1)[0][0] == 8, "three rows and five drafts"
    assert plain.now_s > 1.5 * machine.now_s


def test_a_crowd_has_no_drafts() -> None:
    crowd = Bench(draft_rows=8)
    crowd.run(*(ask("abcabcabcabc", max_tokens=30) for _ in range(8)))
    assert crowd.scheduler.stats.draft_tokens == 0
