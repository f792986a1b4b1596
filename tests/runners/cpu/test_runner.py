from itertools import pairwise
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.engine.seam import Logits, Span
from segue.errors import Incompatible
from segue.runners.cpu.products.processor import VARIABLE, possible, this_target
from segue.runners.cpu.runner import CpuRunner
from segue.runners.cpu.slots import kv
from segue.runners.cpu.slots.kv import BLOCK
from segue.runners.llama.runner import LlamaRunner
from tests.runners.cpu.conftest import empty, load
from tests.runners.histories import Operation, perform
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.models.tiny_reference import TinyReference

TEXT = list(b"the end and then the other one \xc3\xa9 and so on, in the rain")


def step(runner: CpuRunner, *spans: Span) -> Logits:
    """Decode and keep: the runner overwrites its array in the next step."""
    return runner.decode(spans).copy()


def from_scratch(runner: CpuRunner, tokens: list[int]) -> Logits:
    """Alone, all in one step."""
    logits: Logits = step(runner, Span(5, tokens, 0, 1))[0]
    runner.free(5)
    return logits


def token_by_token(runner: CpuRunner, tokens: list[int]) -> Logits:
    """Alone, a step for each: what every other way must equal."""
    for past, token in enumerate(tokens):
        logits = step(runner, Span(5, [token], past, 1))
    runner.free(5)
    row: Logits = logits[0]
    return row


def divergence(logits: Logits, truth: Logits) -> float:
    """Mean Kullback-Leibler divergence of the rows."""
    p, q = (x - np.logaddexp.reduce(x, axis=-1, keepdims=True) for x in (truth, logits))
    return float((np.exp(p) * (p - q)).sum(-1).mean())


# --- faithful ---


def test_agrees_with_numpy(tiny_gguf: Path) -> None:
    """Float weights, so nothing but the KV's half floats stands between."""
    runner = load(tiny_gguf)
    logits = step(runner, Span(0, TEXT, 0, len(TEXT)))
    np.testing.assert_allclose(logits, TinyReference(tiny_gguf).logits(TEXT), atol=2e-2)
    runner.close()


@pytest.mark.parametrize("kind", ["F16", "Q8_0", "Q4_0", "Q4_1"])
def test_every_weight_form_agrees_with_numpy(tmp_path: Path, kind: str) -> None:
    path = write_tiny_gguf(tmp_path / "x", tensor_type=gguf.GGMLQuantizationType[kind], tied=True)
    runner = load(path)
    logits = step(runner, Span(0, TEXT, 0, len(TEXT)))
    assert divergence(logits, TinyReference(path).logits(TEXT)) < 0.01
    runner.close()


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_agrees_with_llama_cpp(tmp_path: Path, architecture: str) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", architecture=architecture)
    span = Span(0, TEXT, 0, len(TEXT))
    ours, theirs = load(path), LlamaRunner(str(path), threads=1)
    np.testing.assert_allclose(step(ours, span), theirs.decode([span]), atol=3e-2)
    ours.close()
    theirs.close()


def test_a_long_context_agrees_with_llama_cpp(tmp_path: Path) -> None:
    """Several segments of attention."""
    path = write_tiny_gguf(tmp_path / "x.gguf", context_length=2048)
    tokens = [(7 * i * i + 3) % 256 for i in range(1100)]
    ours, theirs = load(path, kv_bytes=4 << 20), LlamaRunner(str(path), threads=1, max_rows=2048)
    for past in range(0, 1100, 220):
        mine = step(ours, Span(0, tokens[past : past + 220], past, 1))
    np.testing.assert_allclose(mine, theirs.decode([Span(0, tokens, 0, 1)]), atol=3e-2)
    ours.close()
    theirs.close()


# --- the same bits ---


def test_bits_do_not_depend_on_company(runner: CpuRunner) -> None:
    texts = [TEXT[i : i + 11 + 7 * i] for i in range(5)]
    alone = [from_scratch(runner, text) for text in texts]
    together = step(runner, *(Span(i, t, 0, 1) for i, t in enumerate(texts)))
    np.testing.assert_array_equal(together, alone)
    drawn = step(runner, *(Span(i, [65], len(t), 1) for i, t in enumerate(texts)))
    alone = [from_scratch(runner, [*text, 65]) for text in texts]
    np.testing.assert_array_equal(drawn, alone)


@given(cuts=st.sets(st.integers(1, len(TEXT) - 1)))
@settings(max_examples=30)
def test_bits_do_not_depend_on_where_a_text_is_cut(
    shared_runner: CpuRunner, cuts: set[int]
) -> None:
    """Chunks of a prompt, lone tokens, drafts, and what a preempted sequence computes again."""
    whole = token_by_token(shared_runner, TEXT)
    ends = [0, *sorted(cuts), len(TEXT)]
    for start, end in pairwise(ends):
        logits = step(shared_runner, Span(0, TEXT[start:end], start, 1))
    empty(shared_runner)
    np.testing.assert_array_equal(logits[0], whole)


def test_bits_of_a_long_text_do_not_depend_on_where_it_is_cut(tmp_path: Path) -> None:
    """Across the segments of attention."""
    path = write_tiny_gguf(tmp_path / "x.gguf", context_length=1024)
    runner = load(path, kv_bytes=4 << 20)
    tokens = [(5 * i * i + i) % 256 for i in range(600)]
    rows: dict[int, Logits] = {}
    for size in (240, 1, 7, 64):
        for start in range(0, len(tokens), size):
            chunk = tokens[start : start + size]
            logits = step(runner, Span(0, chunk, start, len(chunk)))
            for i, row in enumerate(logits, start):
                np.testing.assert_array_equal(row, rows.setdefault(i, row))
        runner.free(0)
    runner.close()


def test_bits_do_not_depend_on_threads(q8_gguf: Path) -> None:
    found = []
    for threads in (1, 2, 3, 5):
        runner = load(q8_gguf, threads=threads)
        spans = [Span(slot, TEXT[slot : slot + 20], 0, 20) for slot in range(3)]
        rows = [step(runner, *spans)]
        rows += [step(runner, Span(slot, [65], 20, 1)) for slot in range(3)]
        found.append(np.concatenate(rows))
        runner.close()
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0", "Q4_1"])
def test_bits_do_not_depend_on_the_flavour(tmp_path: Path, kind: str) -> None:
    path = write_tiny_gguf(tmp_path / "x", tensor_type=gguf.GGMLQuantizationType[kind])
    found = []
    for flavour in possible():
        runner = load(path, target=this_target({VARIABLE: flavour.name}))
        found.append(step(runner, Span(0, TEXT, 0, len(TEXT))))
        runner.close()
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["decode", "decode", "fork", "trim", "free"]),
        st.integers(0, 3),
        st.integers(0, 3),
        st.integers(0, 50),
    ),
    max_size=25,
)


@settings(max_examples=40)
@given(OPERATIONS, st.integers(0, 2**32))
def test_any_history_leaves_the_right_state(
    shared_runner: CpuRunner, operations: list[Operation], seed: int
) -> None:
    """Whatever was forked and trimmed, each slot continues its own text, and no cell leaks."""
    runner = shared_runner
    held = perform(runner, operations, seed, longest=200)
    spans = [Span(slot, [65], len(tokens), 1) for slot, tokens in enumerate(held)]
    logits = step(runner, *spans)
    for slot in range(4):
        runner.free(slot)
    expected = [from_scratch(runner, [*tokens, 65]) for tokens in held]
    np.testing.assert_array_equal(logits, expected)
    empty(runner)


# --- the seam ---


def test_rows_come_in_the_order_of_the_spans(runner: CpuRunner) -> None:
    logits = step(
        runner,
        Span(3, TEXT[:5], 0, 2),
        Span(0, TEXT[:9], 0, 0),
        Span(2, TEXT[3:7], 0, 4),
        Span(1, TEXT[:8], 0, 1),
    )
    cases = [(0, 4), (0, 5), (3, 4), (3, 5), (3, 6), (3, 7), (0, 8)]
    expected = [from_scratch(runner, TEXT[a:b]) for a, b in cases]
    np.testing.assert_array_equal(logits, expected)


def test_no_rows_asked_for_gives_none(runner: CpuRunner) -> None:
    width = runner.capabilities.vocab_size
    assert step(runner, Span(0, [1, 2], 0, 0)).shape == (0, width)
    assert step(runner).shape == (0, width)


def test_shared_blocks_are_counted_once(runner: CpuRunner) -> None:
    total = runner.capabilities.num_cells
    step(runner, Span(0, TEXT[:40], 0, 0))
    assert runner.cells_free == total - 2 * BLOCK
    runner.fork(0, 1, BLOCK)
    assert runner.cells_free == total - 2 * BLOCK
    runner.fork(0, 2, 40)
    assert runner.cells_free == total - 3 * BLOCK
    runner.free(0)
    assert runner.cells_free == total - 2 * BLOCK


def test_every_counted_cell_can_be_used_and_no_more(q8_gguf: Path) -> None:
    runner = load(q8_gguf, kv_bytes=4 * BLOCK * 512)
    assert runner.capabilities.num_cells == 4 * BLOCK
    assert runner.capabilities.context_length == 4 * BLOCK
    step(runner, Span(0, [65] * (3 * BLOCK), 0, 0))
    step(runner, Span(1, [65] * BLOCK, 0, 0))
    with pytest.raises(RuntimeError, match="32 cells needed, but 0 are free"):
        runner.decode([Span(0, [1], 3 * BLOCK, 1)])
    with pytest.raises(RuntimeError, match="no block is free"):
        runner.fork(0, 2, 5)
    runner.free(1)
    assert len(step(runner, Span(0, [1], 3 * BLOCK, 1))) == 1
    runner.close()


def test_misuse_is_refused_before_it_reaches_memory(runner: CpuRunner) -> None:
    step(runner, Span(0, [1, 2, 3], 0, 0))
    free = runner.cells_free
    with pytest.raises(ValueError, match="slot 0 holds 3 tokens, not 2"):
        runner.decode([Span(0, [4], 2, 1)])
    with pytest.raises(RuntimeError, match="a step takes 256"):
        runner.decode([Span(1, [4] * 257, 0, 1)])
    with pytest.raises(ValueError, match="cannot fork 4 of 3"):
        runner.fork(0, 1, 4)
    with pytest.raises(ValueError, match="cannot trim slot 0 from 3 to 4"):
        runner.trim(0, 4)
    for token in (-1, 10**6):
        with pytest.raises(ValueError, match="a token that the model does not have"):
            runner.decode([Span(1, [token], 0, 1)])
    for slot in (-1, 6):
        for call in (
            lambda slot=slot: runner.decode([Span(slot, [4], 0, 1)]),
            lambda slot=slot: runner.fork(0, slot, 1),
            lambda slot=slot: runner.fork(slot, 1, 0),
            lambda slot=slot: runner.trim(slot, 0),
            lambda slot=slot: runner.free(slot),
        ):
            with pytest.raises(ValueError, match=f"there is no slot {slot}"):
                call()
    with pytest.raises(ValueError, match="a slot has two spans"):
        runner.decode([Span(1, [4], 0, 1), Span(0, [4], 3, 0), Span(1, [5], 0, 1)])
    assert runner.cells_free == free


def test_sequence_cannot_outgrow_the_context(q8_gguf: Path) -> None:
    runner = load(q8_gguf, context_length=8)
    step(runner, Span(0, [1] * 8, 0, 0))
    with pytest.raises(ValueError, match="would outgrow 8"):
        runner.decode([Span(0, [1], 8, 1)])
    runner.close()


@pytest.mark.parametrize(("available", "cells"), [(1 << 40, 16 * 512), (1 << 20, 512), (0, 512)])
def test_default_memory_is_bounded_by_what_there_is(
    q8_gguf: Path, monkeypatch: pytest.MonkeyPatch, available: int, cells: int
) -> None:
    monkeypatch.setattr(kv, "available_bytes", lambda: available)
    runner = load(q8_gguf, kv_bytes=None, threads=1, max_rows=16)  # type: ignore[arg-type]
    assert runner.capabilities.num_cells == cells
    runner.close()


def test_too_little_memory_is_refused(q8_gguf: Path) -> None:
    with pytest.raises(Incompatible, match="holds not one block"):
        load(q8_gguf, kv_bytes=1000)
