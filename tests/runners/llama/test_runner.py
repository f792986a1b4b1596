import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.engine.seam import Logits, Span
from segue.models.gguf.lists import lists_of_loaded
from segue.models.origin import gguf_origin
from segue.runners.llama import runner as module
from segue.runners.llama.runner import LlamaLoader, LlamaRunner
from tests.runners.histories import Operation, perform
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_reference import TinyReference
from tests.support.models.tiny_writer import write

TEXT = list(b"the end and then the other one \xc3\xa9 and so on, in the rain")


@pytest.fixture(scope="module")
def shared_runner(tiny_gguf: Path) -> Iterator[LlamaRunner]:
    runner = LlamaRunner(
        str(tiny_gguf),
        num_slots=4,
        threads=1,
        max_rows=64,
        context_length=256,
        kv_bytes=0,
        kv_precision="f32",
    )
    yield runner
    runner.close()


@pytest.fixture
def runner(shared_runner: LlamaRunner) -> Iterator[LlamaRunner]:
    yield shared_runner
    empty(shared_runner)


@pytest.fixture(scope="module")
def reference(tiny_gguf: Path) -> TinyReference:
    return TinyReference(tiny_gguf)


def empty(runner: LlamaRunner) -> None:
    for slot in range(runner.capabilities.num_slots):
        runner.free(slot)
    assert runner.cells_free == runner.capabilities.num_cells


def step(runner: LlamaRunner, *spans: Span) -> Logits:
    """Decode and keep: the runner may overwrite its array in the next step."""
    return runner.decode(spans).copy()


def test_agrees_with_numpy(runner: LlamaRunner, reference: TinyReference) -> None:
    logits = step(runner, Span(0, TEXT, 0, len(TEXT)))
    np.testing.assert_allclose(logits, reference.logits(TEXT), atol=1e-4)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "mamba"])
def test_default_precision_agrees_across_chunks(tmp_path: Path, architecture: str) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", architecture=architecture)
    runner = LlamaRunner(str(path), threads=1)
    whole = step(runner, Span(0, TEXT, 0, len(TEXT)))
    assert len(set(whole.argmax(-1).tolist())) > 10, "the tiny model should not repeat itself"
    chunks = [
        step(runner, Span(1, TEXT[i : i + 7], i, len(TEXT[i : i + 7])))
        for i in range(0, len(TEXT), 7)
    ]
    np.testing.assert_allclose(np.concatenate(chunks), whole, atol=1e-4)
    runner.close()


def test_fork_then_diverge_equals_from_scratch(
    runner: LlamaRunner, reference: TinyReference
) -> None:
    step(runner, Span(0, TEXT, 0, 0))
    runner.fork(0, 1, 20)
    runner.fork(0, 2, len(TEXT))
    logits = step(
        runner,
        Span(0, [5], len(TEXT), 1),
        Span(1, [7, 8], 20, 1),
        Span(2, [9], len(TEXT), 1),
    )
    sequences = [[*TEXT, 5], [*TEXT[:20], 7, 8], [*TEXT, 9]]
    expected = [reference.logits(tokens)[-1] for tokens in sequences]
    np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_trim_then_continue_equals_from_scratch(
    runner: LlamaRunner, reference: TinyReference
) -> None:
    step(runner, Span(0, TEXT, 0, 0))
    runner.trim(0, 10)
    logits = step(runner, Span(0, [1, 2, 3], 10, 3))
    np.testing.assert_allclose(logits, reference.logits([*TEXT[:10], 1, 2, 3])[10:], atol=1e-4)


def test_rows_come_in_the_order_of_the_spans(runner: LlamaRunner, reference: TinyReference) -> None:
    logits = step(
        runner,
        Span(3, TEXT[:5], 0, 2),
        Span(0, TEXT[:9], 0, 0),
        Span(2, TEXT[3:7], 0, 4),
        Span(1, TEXT[:8], 0, 1),
    )
    a, b, c = (reference.logits(tokens) for tokens in (TEXT[:5], TEXT[3:7], TEXT[:8]))
    np.testing.assert_allclose(logits, np.concatenate([a[-2:], b, c[-1:]]), atol=1e-4)


def test_no_rows_asked_for_gives_none(runner: LlamaRunner) -> None:
    width = runner.capabilities.vocab_size
    assert step(runner, Span(0, [1, 2], 0, 0)).shape == (0, width)
    assert step(runner).shape == (0, width)


def test_shared_cells_are_counted_once(runner: LlamaRunner) -> None:
    total = runner.capabilities.num_cells
    step(runner, Span(0, TEXT[:30], 0, 0))
    runner.fork(0, 1, 20)
    assert runner.cells_free == total - 30
    runner.free(0)
    assert runner.cells_free == total - 20
    step(runner, Span(1, [1, 2], 20, 0))
    assert runner.cells_free == total - 22


def test_every_counted_cell_can_be_used(runner: LlamaRunner) -> None:
    """The books agree with runner.cpp's: the last free cell decodes, one more is refused."""
    step(runner, Span(0, TEXT[:40], 0, 0))
    runner.fork(0, 1, 40)
    runner.fork(0, 2, 13)
    runner.trim(0, 13)
    while runner.cells_free:
        size = min(runner.cells_free, runner.capabilities.max_rows)
        held = runner.capabilities.num_cells - runner.cells_free - 40 + 13
        step(runner, Span(0, [65] * size, held, 0))
    with pytest.raises(RuntimeError, match="0 cells are free"):
        runner.decode([Span(1, [1], 40, 1)])
    runner.free(1)
    assert runner.cells_free == 40 - 13
    assert len(step(runner, Span(2, [1] * 27, 13, 1))) == 1


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["decode", "fork", "trim", "free"]),
        st.integers(0, 3),
        st.integers(0, 3),
        st.integers(0, 12),
    ),
    max_size=30,
)


@settings(max_examples=40)
@given(OPERATIONS, st.integers(0, 2**32))
def test_any_history_leaves_the_right_state(
    shared_runner: LlamaRunner,
    reference: TinyReference,
    operations: list[Operation],
    seed: int,
) -> None:
    """Whatever was forked and trimmed, each slot continues its own text, and no cell leaks."""
    runner = shared_runner
    held = perform(runner, operations, seed, longest=100)
    if runner.cells_free >= 4:
        spans = [Span(slot, [65], len(tokens), 1) for slot, tokens in enumerate(held)]
        expected = [reference.logits([*tokens, 65])[-1] for tokens in held]
        np.testing.assert_allclose(runner.decode(spans), expected, atol=1e-4)
    empty(runner)


def test_misuse_is_refused_before_it_reaches_llama(runner: LlamaRunner) -> None:
    """Inside runner.cpp the same mistakes would abort the process."""
    step(runner, Span(0, [1, 2, 3], 0, 0))
    with pytest.raises(ValueError, match="slot 0 holds 3 tokens, not 2"):
        runner.decode([Span(0, [4], 2, 1)])
    with pytest.raises(RuntimeError, match="a step takes 64"):
        runner.decode([Span(1, [4] * 65, 0, 1)])
    with pytest.raises(ValueError, match="cannot fork 4 of 3"):
        runner.fork(0, 1, 4)
    with pytest.raises(ValueError, match="cannot trim slot 0 from 3 to 4"):
        runner.trim(0, 4)
    with pytest.raises(RuntimeError, match="invalid batch"):
        runner.decode([Span(1, [10**6], 0, 1)])
    with pytest.raises(IndexError):
        runner.free(4)
    assert runner.cells_free == runner.capabilities.num_cells - 3


def test_sequence_cannot_outgrow_the_context(tiny_gguf: Path) -> None:
    runner = LlamaRunner(str(tiny_gguf), context_length=8, threads=1)
    step(runner, Span(0, [1] * 8, 0, 0))
    with pytest.raises(ValueError, match="would outgrow 8"):
        runner.decode([Span(0, [1], 8, 1)])
    runner.close()


@pytest.mark.parametrize(("memory", "cells"), [(1 << 40, 2048), (4 * 1024 * 512, 1024), (1, 512)])
def test_default_cache_is_bounded_by_memory(
    tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch, memory: int, cells: int
) -> None:
    """A cell of the tiny model takes 512 bytes, and one full sequence always fits."""
    monkeypatch.setattr(module, "_memory_bytes", lambda: memory)
    runner = LlamaRunner(str(tiny_gguf), threads=1)
    assert runner.capabilities.num_cells == cells
    runner.close()


def test_recurrent_model_forks_whole_sequences_only(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", architecture="mamba")
    runner = LlamaRunner(str(path), threads=1, num_slots=64)
    assert not runner.capabilities.can_trim
    assert runner.capabilities.num_slots == 16
    step(runner, Span(0, TEXT, 0, 0))
    runner.fork(0, 1, len(TEXT))
    forked = step(runner, Span(1, [65], len(TEXT), 1), Span(0, [66], len(TEXT), 1))
    scratch = step(runner, Span(2, [*TEXT, 65], 0, 1), Span(3, [*TEXT, 66], 0, 1))
    np.testing.assert_allclose(forked, scratch, atol=1e-4)
    with pytest.raises(ValueError, match="whole sequences only"):
        runner.fork(0, 4, 5)
    with pytest.raises(ValueError, match="cannot trim slot 0"):
        runner.trim(0, 5)
    empty(runner)
    runner.close()


def test_plm_is_computed(tmp_path: Path) -> None:
    """With flash attention llama.cpp ends the process."""
    runner = LlamaRunner(str(write(tmp_path / "x.gguf", MODELS["plm"])), threads=1)
    assert np.isfinite(step(runner, Span(0, [1, 2, 3], 0, 1))).all()
    empty(runner)
    runner.close()


def test_loader_survives_pickling_and_fills_in_defaults(tiny_gguf: Path) -> None:
    loader = LlamaLoader(str(tiny_gguf), "tiny", num_slots=1000, threads=1)
    loaded = pickle.loads(pickle.dumps(loader))()
    runner, vocab, info = loaded.runner, loaded.vocab, loaded.info
    assert loaded.draft is loaded.mtp is loaded.slot_bytes is None
    assert info.context_length == runner.capabilities.context_length == 512
    assert info.kv_tokens == runner.capabilities.num_cells == 2048
    assert runner.capabilities.num_slots == 256
    assert info.vocab_size == vocab.size == runner.capabilities.vocab_size
    assert (info.name, info.runner, info.deterministic) == ("tiny", "llama", False)
    assert info.origin == gguf_origin(tiny_gguf)
    assert loaded.lists() == lists_of_loaded(tiny_gguf, info.origin) != {}
    runner.close()
    vocab.close()
