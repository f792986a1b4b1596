import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.engine.seam import Logits, Span
from segue.runners.llama.runner import LlamaRunner
from tests.tiny_gguf import write_tiny_gguf
from tests.tiny_reference import TinyReference

pytest.importorskip("openvino")
from segue.runners import openvino_runner
from segue.runners.openvino_convert import converted
from segue.runners.openvino_runner import BLOCK, OpenVinoRunner

TEXT = list(b"the end and then the other one \xc3\xa9 and so on, in the rain")
Q8_0 = gguf.GGMLQuantizationType.Q8_0


def load(path: Path, cache: Path, **options: int | bool) -> OpenVinoRunner:
    settings = {"num_slots": 6, "threads": 2, "max_rows": 256, "kv_bytes": 512 << 10}
    return OpenVinoRunner(converted(path, cache), **{**settings, **options})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def q8_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("q8") / "tiny.gguf", tensor_type=Q8_0)


@pytest.fixture(scope="module")
def shared_runner(q8_gguf: Path) -> Iterator[OpenVinoRunner]:
    runner = load(q8_gguf, q8_gguf.parent)
    yield runner
    runner.close()


@pytest.fixture
def runner(shared_runner: OpenVinoRunner) -> Iterator[OpenVinoRunner]:
    yield shared_runner
    empty(shared_runner)


@pytest.fixture
def exact_runner(runner: OpenVinoRunner) -> OpenVinoRunner:
    if not runner.capabilities.deterministic:
        pytest.skip("this machine's kernels are not deterministic: the probe says so")
    return runner


def empty(runner: OpenVinoRunner) -> None:
    for slot in range(runner.capabilities.num_slots):
        runner.free(slot)
    assert runner.cells_free == runner.capabilities.num_cells


def step(runner: OpenVinoRunner, *spans: Span) -> Logits:
    """Decode and keep: the runner overwrites its array in the next step."""
    return runner.decode(spans).copy()


def from_scratch(runner: OpenVinoRunner, tokens: list[int]) -> Logits:
    """Alone, all in one step."""
    logits: Logits = step(runner, Span(5, tokens, 0, 1))[0]
    runner.free(5)
    return logits


def divergence(logits: Logits, truth: Logits) -> float:
    """Mean Kullback-Leibler divergence of the rows."""
    p, q = (x - np.logaddexp.reduce(x, axis=-1, keepdims=True) for x in (truth, logits))
    return float((np.exp(p) * (p - q)).sum(-1).mean())


# --- faithful ---


def test_agrees_with_numpy(tiny_gguf: Path, tmp_path: Path) -> None:
    """Float weights, so nothing but the KV's half floats stands between."""
    runner = load(tiny_gguf, tmp_path)
    logits = step(runner, Span(0, TEXT, 0, len(TEXT)))
    np.testing.assert_allclose(logits, TinyReference(tiny_gguf).logits(TEXT), atol=2e-2)
    runner.close()


@pytest.mark.parametrize("kind", ["F16", "Q8_0", "Q4_0", "Q4_1"])
def test_every_weight_form_agrees_with_numpy(tmp_path: Path, kind: str) -> None:
    path = write_tiny_gguf(tmp_path / "x", tensor_type=gguf.GGMLQuantizationType[kind], tied=True)
    runner = load(path, tmp_path)
    logits = step(runner, Span(0, TEXT, 0, len(TEXT)))
    assert divergence(logits, TinyReference(path).logits(TEXT)) < 0.01
    runner.close()


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_agrees_with_llama_cpp(tmp_path: Path, architecture: str) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", architecture=architecture)
    span = Span(0, TEXT, 0, len(TEXT))
    ours, theirs = load(path, tmp_path), LlamaRunner(str(path), threads=1)
    np.testing.assert_allclose(step(ours, span), theirs.decode([span]), atol=3e-2)
    ours.close()
    theirs.close()


# --- the same bits ---


def test_bits_do_not_depend_on_company(exact_runner: OpenVinoRunner) -> None:
    texts = [TEXT[i : i + 11 + 7 * i] for i in range(5)]
    alone = [from_scratch(exact_runner, text) for text in texts]
    together = step(exact_runner, *(Span(i, t, 0, 1) for i, t in enumerate(texts)))
    np.testing.assert_array_equal(together, alone)
    drawn = step(exact_runner, *(Span(i, [65], len(t), 1) for i, t in enumerate(texts)))
    alone = [from_scratch(exact_runner, [*text, 65]) for text in texts]
    np.testing.assert_array_equal(drawn, alone)


def test_bits_do_not_depend_on_company_where_threads_outnumber_sequences(q8_gguf: Path) -> None:
    """Attention has a third kernel, for fewer sequences than threads: it may never be taken."""
    runner = load(q8_gguf, q8_gguf.parent, threads=4)
    if not runner.capabilities.deterministic:
        pytest.skip("this machine's kernels are not deterministic: the probe says so")
    step(runner, *(Span(slot, TEXT, 0, 0) for slot in range(3)))
    alone = step(runner, Span(0, [65], len(TEXT), 1))
    both = step(runner, *(Span(slot, [65], len(TEXT), 1) for slot in (1, 2)))
    np.testing.assert_array_equal(both, np.concatenate([alone, alone]))
    runner.close()


@given(cuts=st.sets(st.integers(1, len(TEXT) - 1)))
@settings(max_examples=30)
def test_bits_do_not_depend_on_where_a_text_is_cut(
    shared_runner: OpenVinoRunner, cuts: set[int]
) -> None:
    """Chunks of a prompt, lone tokens, drafts, and what a preempted sequence computes again."""
    if not shared_runner.capabilities.deterministic:
        pytest.skip("this machine's kernels are not deterministic: the probe says so")
    whole = from_scratch(shared_runner, TEXT)
    ends = [0, *sorted(cuts), len(TEXT)]
    for start, end in pairwise(ends):
        logits = step(shared_runner, Span(0, TEXT[start:end], start, 1))
    empty(shared_runner)
    np.testing.assert_array_equal(logits[0], whole)


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
    shared_runner: OpenVinoRunner, operations: list[tuple[str, int, int, int]], seed: int
) -> None:
    """Whatever was forked and trimmed, each slot continues its own text, and no cell leaks."""
    runner, draw = shared_runner, random.Random(seed)
    held: list[list[int]] = [[], [], [], []]
    for name, slot, other, amount in operations:
        if name == "decode" and len(held[slot]) + amount < 200:
            tokens = [draw.randrange(256) for _ in range(amount)]
            runner.decode([Span(slot, tokens, len(held[slot]), 0)])
            held[slot] += tokens
        elif name == "fork" and not held[other] and slot != other:
            length = min(amount, len(held[slot]))
            runner.fork(slot, other, length)
            held[other] = held[slot][:length]
        elif name == "trim":
            length = min(amount, len(held[slot]))
            runner.trim(slot, length)
            del held[slot][length:]
        elif name == "free":
            runner.free(slot)
            held[slot] = []
    spans = [Span(slot, [65], len(tokens), 1) for slot, tokens in enumerate(held)]
    logits = step(runner, *spans)
    for slot in range(4):
        runner.free(slot)
    expected = [from_scratch(runner, [*tokens, 65]) for tokens in held]
    if runner.capabilities.deterministic:
        np.testing.assert_array_equal(logits, expected)
    else:
        np.testing.assert_allclose(logits, expected, atol=1e-2)
    empty(runner)


# --- the seam ---


def test_rows_come_in_the_order_of_the_spans(exact_runner: OpenVinoRunner) -> None:
    logits = step(
        exact_runner,
        Span(3, TEXT[:5], 0, 2),
        Span(0, TEXT[:9], 0, 0),
        Span(2, TEXT[3:7], 0, 4),
        Span(1, TEXT[:8], 0, 1),
    )
    cases = [(0, 4), (0, 5), (3, 4), (3, 5), (3, 6), (3, 7), (0, 8)]
    expected = [from_scratch(exact_runner, TEXT[a:b]) for a, b in cases]
    np.testing.assert_array_equal(logits, expected)


def test_no_rows_asked_for_gives_none(runner: OpenVinoRunner) -> None:
    width = runner.capabilities.vocab_size
    assert step(runner, Span(0, [1, 2], 0, 0)).shape == (0, width)
    assert step(runner).shape == (0, width)


def test_shared_blocks_are_counted_once(runner: OpenVinoRunner) -> None:
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
    runner = load(q8_gguf, q8_gguf.parent, kv_bytes=5 * BLOCK * 512)
    assert runner.capabilities.num_cells == 4 * BLOCK, "one block is scratch"
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


def test_misuse_is_refused_before_it_reaches_memory(runner: OpenVinoRunner) -> None:
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
    with pytest.raises(IndexError):
        runner.free(6)
    assert runner.cells_free == free


def test_sequence_cannot_outgrow_the_context(q8_gguf: Path) -> None:
    runner = load(q8_gguf, q8_gguf.parent, context_length=8)
    step(runner, Span(0, [1] * 8, 0, 0))
    with pytest.raises(ValueError, match="would outgrow 8"):
        runner.decode([Span(0, [1], 8, 1)])
    runner.close()


def test_fast_kv_serves_without_the_promise(q8_gguf: Path) -> None:
    runner = load(q8_gguf, q8_gguf.parent, fast_kv=True)
    assert not runner.capabilities.deterministic
    whole = step(runner, Span(0, TEXT, 0, len(TEXT)))
    runner.fork(0, 1, 40)
    forked = step(runner, Span(1, TEXT[40:], 40, len(TEXT) - 40))
    assert divergence(forked, whole[40:]) < 0.01
    runner.close()


@pytest.mark.parametrize(("available", "cells"), [(1 << 40, 16 * 512), (1 << 20, 512), (0, 512)])
def test_default_memory_is_bounded_by_what_there_is(
    q8_gguf: Path, monkeypatch: pytest.MonkeyPatch, available: int, cells: int
) -> None:
    monkeypatch.setattr(openvino_runner, "_available_bytes", lambda: available)
    runner = OpenVinoRunner(converted(q8_gguf, q8_gguf.parent), threads=1, max_rows=16)
    assert runner.capabilities.num_cells == cells
    runner.close()
