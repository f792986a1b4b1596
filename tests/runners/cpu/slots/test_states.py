"""Slots of models with states: forks, tokens given back, and that nothing else shows in a row's bits."""

import hashlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from segue.engine.seam import Logits, Span
from segue.errors import Incompatible
from segue.runners.cpu.products.processor import VARIABLE, possible, this_target
from segue.runners.cpu.runner import CpuRunner
from segue.runners.cpu.slots import states
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

TEXT = random.Random(4).choices(range(256), k=80)


@pytest.fixture(
    scope="module",
    params=[
        "qwen35",
        "qwen3next",
        "lfm2",
        "granitehybrid",
        "falcon-h1",
        "nemotron_h",
        "kimi-linear",
        "plamo2",
        "mamba",
        "mamba2",
        "rwkv6",
        "rwkv6qwen2",
        "rwkv7",
        "arwkv7",
    ],
)
def loaded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CpuRunner]:
    path = write(tmp_path_factory.mktemp("tiny") / "x.gguf", MODELS[request.param])
    made = load(path, threads=2, num_slots=6)
    yield made
    made.close()


@pytest.fixture(scope="module")
def truth(loaded: CpuRunner) -> Logits:
    """Logits of each row of the text."""
    logits = loaded.decode([Span(0, TEXT, 0, len(TEXT))]).copy()
    loaded.free(0)
    return logits


@pytest.fixture
def runner(loaded: CpuRunner) -> Iterator[CpuRunner]:
    yield loaded
    for slot in range(6):
        loaded.free(slot)


def test_a_row_does_not_depend_on_spans_and_company(runner: CpuRunner, truth: Logits) -> None:
    draw = random.Random(5)
    for _ in range(6):
        held = [0] * 4
        while min(held) < len(TEXT):
            counts = [min(draw.choice([0, 1, 1, 2, 7, 9, 40]), len(TEXT) - each) for each in held]
            spans = [
                Span(slot, TEXT[at : at + count], at, count)
                for slot, (at, count) in enumerate(zip(held, counts, strict=True))
                if count
            ]
            logits = runner.decode(spans)
            expected = [truth[span.past : span.past + len(span.tokens)] for span in spans]
            if spans:
                np.testing.assert_array_equal(logits, np.concatenate(expected))
            held = [at + count for at, count in zip(held, counts, strict=True)]
        for slot in range(4):
            runner.free(slot)


def wander(runner: CpuRunner, truth: Logits, steps: int) -> None:
    """Right tokens and then wrong ones, which go, at times with some right ones; and copies of such slots."""
    draw, most = random.Random(6), runner.capabilities.can_give_back
    held, returnable = [0] * 4, [0] * 4
    for _ in range(steps):
        spans, ends = [], []
        for slot in draw.sample(range(4), draw.randint(1, 4)):
            if held[slot] > len(TEXT) - 30:
                runner.free(slot)
                held[slot] = returnable[slot] = 0
            right = draw.choice([0, 1, 1, 1, 2, 5, 8, 9, 20])
            kept = draw.randint(1, most)
            wrong = draw.randint(0 if right else 1, kept)
            end = held[slot] + right
            tokens = [*TEXT[held[slot] : end], *draw.choices(range(256), k=wrong)]
            spans.append(Span(slot, tokens, held[slot], len(tokens), returnable=kept))
            ends.append(end)
        logits, row = runner.decode(spans), 0
        for span, end in zip(spans, ends, strict=True):
            expected = truth[span.past : end]
            np.testing.assert_array_equal(logits[row : row + len(expected)], expected)
            row += len(span.tokens)
            whole = span.past + len(span.tokens)
            can = min(span.returnable, returnable[span.slot] + len(span.tokens))
            held[span.slot] = max(end - draw.choice([0, 0, 0, 1, 2]), whole - can)
            returnable[span.slot] = can - (whole - held[span.slot])
            runner.trim(span.slot, held[span.slot])
        if draw.random() < 0.3:
            src, dst = draw.sample(range(4), 2)
            runner.free(dst)
            fewer = draw.randint(0, returnable[src]) if held[src] else 0
            runner.fork(src, dst, held[src] - fewer)
            held[dst], returnable[dst] = held[src] - fewer, returnable[src] - fewer
            if not held[dst]:
                returnable[dst] = 0


def test_drafts_are_given_back_in_any_order_of_steps_and_forks(
    runner: CpuRunner, truth: Logits
) -> None:
    wander(runner, truth, 150)


@pytest.mark.parametrize(
    "model", ["qwen35", "falcon-h1", "lfm2", "kimi-linear", "mamba", "rwkv6", "rwkv7"]
)
def test_drafts_leave_the_same_bits_with_all_instructions(tmp_path: Path, model: str) -> None:
    path = write(tmp_path / "x.gguf", MODELS[model])
    sums, (own, *_) = set(), possible()
    for flavour in possible():
        target = this_target({VARIABLE: flavour.name})
        made = load(path, target=target, threads=2 if flavour == own else 1)
        whole = made.decode([Span(0, TEXT, 0, len(TEXT))]).copy()
        sums.add(hashlib.sha256(whole.tobytes()).hexdigest())
        made.free(0)
        wander(made, whole, 20)
        made.close()
    assert len(sums) == 1


@pytest.mark.parametrize("count", [0, 9])
def test_as_many_tokens_as_a_slot_keeps_apart_can_be_asked_for(
    runner: CpuRunner, count: int
) -> None:
    assert runner.capabilities.can_give_back == 8
    with pytest.raises(ValueError, match=f"cannot keep {count} tokens apart"):
        runner.decode([Span(0, TEXT[:20], 0, 0, returnable=count)])


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 30])
def test_the_last_token_can_be_given_back(runner: CpuRunner, truth: Logits, length: int) -> None:
    runner.decode([Span(0, TEXT[: length - 1], 0, 0)])
    for _ in range(3):
        runner.decode([Span(0, [7], length - 1, 0)])
        runner.trim(0, length - 1)
    again = runner.decode([Span(0, TEXT[length - 1 : length + 9], length - 1, 10)]).copy()
    np.testing.assert_array_equal(again, truth[length - 1 : length + 9])


def test_the_last_row_of_a_prompt_can_be_given_back(runner: CpuRunner, truth: Logits) -> None:
    runner.decode([Span(0, [*TEXT[:20], 9], 0, 0)])
    runner.trim(0, 20)
    np.testing.assert_array_equal(runner.decode([Span(0, TEXT[20:25], 20, 5)]), truth[20:25])


def test_no_more_than_was_asked_for_can_be_given_back(runner: CpuRunner) -> None:
    runner.decode([Span(0, TEXT[:20], 0, 0)])
    with pytest.raises(ValueError, match="can give back 1, not 2"):
        runner.trim(0, 18)
    runner.trim(0, 20)
    runner.trim(0, 19)
    with pytest.raises(ValueError, match="can give back 0, not 1"):
        runner.trim(0, 18)


@pytest.mark.parametrize("given_back", [0, 1])
def test_forks_go_their_own_ways(runner: CpuRunner, truth: Logits, given_back: int) -> None:
    runner.decode([Span(0, TEXT[: 20 + given_back], 0, 0)])
    runner.trim(0, 20)
    runner.fork(0, 3, 20)
    other = runner.decode([Span(3, [5, 6, 7], 20, 3)]).copy()
    np.testing.assert_array_equal(runner.decode([Span(0, TEXT[20:25], 20, 5)]), truth[20:25])
    runner.decode([Span(4, TEXT[:20], 0, 0)])
    np.testing.assert_array_equal(runner.decode([Span(4, [5, 6, 7], 20, 3)]), other)


def test_slots_are_forked_as_far_back_as_they_can_be_trimmed(
    runner: CpuRunner, truth: Logits
) -> None:
    runner.decode([Span(0, TEXT[:20], 0, 0, returnable=3)])
    with pytest.raises(ValueError, match="can give back 3, not 4"):
        runner.fork(0, 1, 16)
    runner.fork(0, 1, 17)
    np.testing.assert_array_equal(runner.decode([Span(1, TEXT[17:25], 17, 8)]), truth[17:25])
    np.testing.assert_array_equal(runner.decode([Span(0, TEXT[20:25], 20, 5)]), truth[20:25])
    runner.free(1)
    runner.fork(0, 1, 0)
    assert runner.decode([Span(1, TEXT[:3], 0, 3)]).shape[0] == 3


def test_a_slot_forgets_when_it_is_freed(runner: CpuRunner, truth: Logits) -> None:
    runner.decode([Span(0, [9] * 30, 0, 0)])
    runner.free(0)
    np.testing.assert_array_equal(runner.decode([Span(0, TEXT[:9], 0, 9)]), truth[:9])


def test_slots_are_as_many_as_memory_allows(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path_factory.mktemp("tiny") / "x.gguf", MODELS["qwen35"])
    # five layers, each with eleven inputs of 256 channels and four heads, which have eight changes
    each = 4 * 5 * (11 * 256 + 4 * (32 * 32 + 8 * (2 * 32 + 16)))
    monkeypatch.setattr(states, "available_bytes", lambda: 12 * each)
    runner = load(path, threads=1, num_slots=6)
    assert runner.capabilities.num_slots == 3
    assert runner.capabilities.state_bytes == each
    runner.close()
    monkeypatch.setattr(states, "available_bytes", lambda: each)
    with pytest.raises(
        Incompatible, match=r"a sequence's state takes .* kB, and there are .* for states"
    ):
        load(path, threads=1)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems may keep pages")
def test_what_was_measured_at_the_start_leaves_no_states_in_memory(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = write(tmp_path_factory.mktemp("tiny") / "x.gguf", MODELS["qwen35"])
    runner = load(path, threads=1, num_slots=6)
    held = runner._slots.states
    assert held is not None
    assert not held._states.any()
    runner.decode([Span(0, TEXT, 0, 0)])
    assert held._states[0].any()
    runner.close()
