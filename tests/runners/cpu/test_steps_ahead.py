"""Steps that are begun give what `decode` and `draw` give, to the bit, and take each other's tokens."""

import random
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.engine.seam import (
    Changes,
    Draw,
    Late,
    Repeats,
    Span,
    Told,
)
from segue.runners.cpu.products.processor import VARIABLE, possible, this_target
from segue.runners.cpu.runner import CpuRunner
from tests.runners.cpu.conftest import NewThreads, be_patient, empty, load
from tests.runners.cpu.writings import GREEDY, Writing, drawn_alone, some_writing
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.models.tiny_lora import write_tiny_lora
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

Found = tuple[bytes, list[int | None]]  # logits and tokens of a step


def read_prompts(runner: CpuRunner, writings: Sequence[Writing]) -> None:
    """All but the last token, which the first step computes."""
    for each in writings:
        runner.decode([Span(each.slot, each.prompt[:-1], 0, 0, each.mix)])
        each.start()


def one_by_one(runner: CpuRunner, writings: list[Writing], steps: list[list[int]]) -> list[Found]:
    """Every step by `decode`, every draw by the sampler's filters."""
    found: list[Found] = []
    read_prompts(runner, writings)
    for rows in steps:
        those = [writings[i] for i in rows]
        spans = [Span(each.slot, [each.token or 0], each.length, 1, each.mix) for each in those]
        logits = runner.decode(spans)
        before = logits.tobytes()
        draws = [each.draw(row) for row, each in enumerate(those)][::-1]
        tokens = [drawn_alone(those[draw.row], draw, logits[draw.row].copy()) for draw in draws]
        for each, token in zip(those[::-1], tokens, strict=True):
            each.push(token, each.mu)
            each.length += 1
        found.append((before, tokens))
    empty(runner)
    return found


def in_chains(
    runner: CpuRunner, writings: list[Writing], steps: list[list[int]], most_open: list[int]
) -> list[Found]:
    """The same by `begin` and `end`; `most_open`: after each step, how many may stay open."""
    found: list[Found] = []
    waiting: list[list[Writing]] = []  # of the steps that are open, in the order of their draws
    untold: list[list[tuple[Late, Told | None]]] = []  # likewise
    read_prompts(runner, writings)

    def end() -> None:
        about = untold.pop(0)

        def tell() -> None:
            for late, told in about:
                runner.tell(late, told)

        telling = threading.Thread(target=tell)
        telling.start()
        step = runner.end()
        telling.join()
        found.append((step.logits.tobytes(), [*step.tokens]))
        those, feedback = waiting.pop(0), step.feedback or [0.0] * len(step.tokens)
        for each, token, mu in zip(those, step.tokens, feedback, strict=True):
            each.push(token, mu)

    for rows, most in zip(steps, most_open, strict=True):
        those = [writings[i] for i in rows]
        before = waiting[-1] if waiting else []
        spans, draws = [], []
        for row, each in enumerate(those):
            drawn = next((i for i, other in enumerate(before) if other is each), None)
            token = each.token or 0 if drawn is None else -1 - drawn
            spans.append(Span(each.slot, [token], each.length, 1, each.mix))
            draws.append(each.draw(row, drawn))
        runner.begin(spans, draws[::-1])
        untold.append(
            [
                (draw.late, each.told(each.length))
                for draw, each in zip(draws, those, strict=True)
                if draw.late is not None
            ]
        )
        for each in those:
            each.length += 1
        waiting.append(those[::-1])
        while len(waiting) > most:
            end()
    while waiting:
        end()
    empty(runner)
    return found


class AnyThreads:
    """Other numbers of threads in every step."""

    def __init__(self, seed: int, team: int) -> None:
        self._draw, self._team = random.Random(seed), team

    def choose(self, rows: int) -> int:
        return self._draw.randint(1, self._team)

    def learn(self, rows: int, seconds: float, threads: int) -> None:
        pass


def use_threads(runner: CpuRunner, seed: int) -> None:
    runner._threads = AnyThreads(seed, runner._team.size)  # type: ignore[assignment]
    runner._steps_ahead._threads = AnyThreads(seed + 1, runner._team.size)  # type: ignore[assignment]


@pytest.fixture(scope="module")
def runners(tmp_path_factory: pytest.TempPathFactory, q8_gguf: Path) -> Iterator[list[CpuRunner]]:
    """One of each flavour, one with an adapter, and one with states."""
    base = write_tiny_gguf(tmp_path_factory.mktemp("ahead") / "base.gguf")
    lora = write_tiny_lora(base.with_name("lora.gguf"), base)
    found = [
        load(q8_gguf, target=this_target({VARIABLE: flavour.name}), threads=3)
        for flavour in possible()
    ]
    found.append(load(base, threads=3, adapters={"lora": str(lora)}))
    found.append(load(write(base.with_name("states.gguf"), MODELS["qwen35"]), threads=3))
    for runner in found:
        be_patient(runner)
    yield found
    for runner in found:
        runner.close()


def steps_of(num_writings: int) -> st.SearchStrategy[list[list[int]]]:
    """Which sequences a step computes, in any order: some leave, some come back."""
    rows = st.lists(st.integers(0, num_writings - 1), min_size=1, unique=True)
    return st.lists(rows, min_size=1, max_size=12)


@settings(max_examples=15, deadline=None)
@given(data=st.data(), num_writings=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_chains_of_steps_give_what_single_steps_give(
    runners: list[CpuRunner], data: st.DataObject, num_writings: int, seed: int
) -> None:
    steps = data.draw(steps_of(num_writings))
    most_open = data.draw(
        st.lists(st.sampled_from([0, 1, 1, 1]), min_size=len(steps), max_size=len(steps))
    )
    for number, runner in enumerate(runners):
        use_threads(runner, seed + number)
        writings = [some_writing(runner, slot, seed + slot) for slot in range(num_writings)]
        again = [replace(each) for each in writings]
        expected = one_by_one(runner, writings, steps)
        found = in_chains(runner, again, steps, most_open)
        for (bits, tokens), (wanted, drawn) in zip(found, expected, strict=True):
            assert tokens == drawn
            assert bits == wanted


def test_many_short_chains_with_any_numbers_of_threads(q8_gguf: Path) -> None:
    """No thread misses a step, runs one twice or reads a board that is written again."""
    runner = load(q8_gguf, threads=4)
    be_patient(runner)
    draw = random.Random(5)
    steps = [[0]] * 150
    expected = one_by_one(runner, [some_writing(runner, 0, 9)], steps)
    for attempt in range(6):
        use_threads(runner, attempt)
        most_open = [draw.choice([0, 1, 1]) for _ in steps]
        assert in_chains(runner, [some_writing(runner, 0, 9)], steps, most_open) == expected
    runner.close()


def test_steps_of_a_model_beside_run_between_chains(q8_gguf: Path) -> None:
    large = load(q8_gguf, threads=3)
    small = load(q8_gguf, threads=2, beside=large)
    draws = [Draw(0, 0.5, GREEDY)]
    for past in range(0, 20, 2):
        large.begin([Span(0, [7], past, 1)], draws)
        with pytest.raises(RuntimeError, match="a step of another model is open"):
            small.begin([Span(0, [7], past, 0)], [])
        large.begin([Span(0, [-1], past + 1, 1)], draws)
        with pytest.raises(RuntimeError, match="a step is open"):
            small.decode([Span(0, [7], past, 0)])
        with pytest.raises(RuntimeError, match="two steps are open"):
            small.begin([Span(0, [7], past, 0)], [])
        first, second = large.end(), large.end()
        row = small.decode([Span(0, [7], past, 1)]).copy()
        assert first.logits.tobytes() == row.tobytes()
        small.begin([Span(0, [first.tokens[0] or 0], past + 1, 1)], draws)
        assert small.end().tokens == second.tokens
        large.trim(0, past + 1)
        large.decode([Span(0, [9], past + 1, 0)])
        small.trim(0, past + 1)
        small.decode([Span(0, [9], past + 1, 0)])
    small.close()
    large.close()


def test_prompts_may_be_read_in_steps_that_are_begun(runner: CpuRunner) -> None:
    text = list(range(60, 160))
    expected = runner.decode([Span(0, text, 0, 2), Span(1, [5], 0, 1)]).tobytes()
    runner.begin([Span(2, text, 0, 2), Span(3, [5], 0, 1)], [Draw(1, 0.5, GREEDY)])
    runner.begin([Span(2, [-1], 100, 1), Span(4, text, 0, 0)], [])
    step = runner.end()
    assert step.logits.tobytes() == expected
    row = runner.end().logits.tobytes()
    assert row == runner.decode([Span(0, [step.tokens[0] or 0], 100, 1)]).tobytes()


def test_a_step_may_have_no_rows(runner: CpuRunner) -> None:
    runner.begin([], [])
    runner.begin([Span(0, [], 0, 0)], [])
    assert runner.end().logits.shape == runner.end().logits.shape
    assert runner.cells_free == runner.capabilities.num_cells


def test_what_cannot_be_begun_is_refused_before_anything_changes(runner: CpuRunner) -> None:
    runner.decode([Span(0, [1, 2, 3], 0, 0)])
    ok, wide = Draw(0, 0.5, GREEDY), Changes(np.array([10**6]), np.zeros(1, np.float32))
    seen = Repeats(np.array([4]), 0, 0, 1, 1.5, 0.0, 0.0, drawn=1)
    runner.begin([Span(0, [4], 3, 1)], [ok])
    free, size = runner.cells_free, runner.capabilities.vocab_size
    cases: list[tuple[Span, Draw, type[Exception], str]] = [
        (Span(0, [-1], 3, 1), ok, ValueError, "slot 0 holds 4 tokens, not 3"),
        (Span(0, [-2], 4, 1), ok, ValueError, "a token that the model does not have"),
        (Span(0, [size], 4, 1), ok, ValueError, "a token that the model does not have"),
        (Span(-1, [4], 0, 1), ok, ValueError, "no slot -1"),
        (Span(6, [4], 0, 1), ok, ValueError, "no slot 6"),
        (Span(0, [-1], 4, 2), ok, ValueError, "2 rows of logits wanted of 1 tokens"),
        (Span(0, [-1], 4, 1, ((0, 1.0),)), ok, ValueError, "an adapter that is not there"),
        (Span(1, [4] * 257, 0, 1), ok, RuntimeError, "a step takes 256"),
        (Span(0, [-1], 4, 1), ok._replace(row=1), ValueError, "no row 1"),
        (Span(0, [-1], 4, 1), ok._replace(row=-1), ValueError, "no row -1"),
        (Span(0, [-1], 4, 1), ok._replace(changes=wide), ValueError, "does not have"),
        (Span(0, [-1], 4, 1), ok._replace(repeats=seen), ValueError, "no draw 1"),
    ]
    for span, draw, error, said in cases:
        with pytest.raises(error, match=said):
            runner.begin([span], [draw])
        assert runner.cells_free == free
    with pytest.raises(ValueError, match="a slot has two spans"):
        runner.begin([Span(0, [-1], 4, 1), Span(0, [-1], 5, 1)], [ok])
    assert runner.cells_free == free
    runner.begin([Span(0, [-1], 4, 1)], [ok])
    with pytest.raises(RuntimeError, match="two steps are open"):
        runner.begin([Span(0, [-1], 5, 1)], [ok])
    runner.end()
    for call in (
        lambda: runner.decode([]),
        lambda: runner.draw([]),
        lambda: runner.fork(0, 1, 1),
        lambda: runner.trim(0, 1),
        lambda: runner.free(0),
    ):
        with pytest.raises(RuntimeError, match="a step is open"):
            call()
    runner.end()
    with pytest.raises(RuntimeError, match="no step is open"):
        runner.end()
    # No step before it is open.
    with pytest.raises(ValueError, match="a token that the model does not have"):
        runner.begin([Span(0, [-1], 5, 1)], [ok])
    with pytest.raises(ValueError, match="no draw 0"):
        runner.begin([Span(0, [4], 5, 1)], [ok._replace(repeats=seen._replace(drawn=0))])


def test_logits_of_begun_steps_are_limited(q8_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("segue.runners.cpu.runner._MOST_AHEAD", 3)
    runner = load(q8_gguf)
    assert runner.capabilities.rows_ahead == 3
    with pytest.raises(RuntimeError, match="4 rows of logits asked for, but there are 3"):
        runner.begin([Span(0, [1] * 4, 0, 4)], [])
    runner.begin([Span(0, [1], 0, 1)], [Draw(0, 0.5, GREEDY)] * 3)
    with pytest.raises(ValueError, match="4 draws, but there are 3 rows"):
        runner.begin([Span(0, [-3], 1, 1)], [Draw(0, 0.5, GREEDY)] * 4)
    runner.close()


def test_closing_waits_for_open_steps_and_ends_the_threads(q8_gguf: Path) -> None:
    threads = NewThreads()
    runner = load(q8_gguf, threads=2)
    runner.begin([Span(0, [1] * 20, 0, 1)], [Draw(0, 0.5, GREEDY)])
    runner.begin([Span(0, [-1], 20, 1)], [Draw(0, 0.5, GREEDY)])
    assert len(threads) == 1
    runner.close()
    assert len(threads) == 0
