"""Slots written out and filled again: what goes on from them has the bits that it has without."""

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.engine.seam import Logits, Span
from segue.runners.cpu.mtp_runner import MtpRunner
from segue.runners.cpu.runner import CpuRunner
from segue.runners.cpu.slots.kv import BLOCK
from segue.runners.cpu.slots.slot_bytes import CpuSlotBytes
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.attention.kv_formats import KvType
from tests.runners.cpu.conftest import empty, load, soil
from tests.support.models.tiny_drafts import DRAFTING
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

TEXT = random.Random(7).choices(range(256), k=150)
# Windows, keys of other layers, latents, narrow values, states beside attention, states alone.
VARIANTS = ("llama", "gemma4", "deepseek2", "mimo2", "qwen35", "falcon-h1", "mamba2", "rwkv7")


@pytest.fixture(
    scope="module",
    params=[*((name, "f16") for name in VARIANTS), ("llama", "q8_0"), ("deepseek2", "q8_0")],
    ids=" ".join,
)
def loaded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CpuRunner]:
    name, kv_type = request.param
    path = write(tmp_path_factory.mktemp("tiny") / "x.gguf", MODELS[name])
    made = load(path, kv_type=kv_type, kv_bytes=8 << 20)
    yield made
    made.close()


def out(runner: CpuRunner, slot: int, length: int) -> bytes:
    access = runner.slot_bytes("m")
    taken = b"".join(access.contents(slot, length))
    assert len(taken) == access.num_bytes(length)
    return taken


def fill(access: CpuSlotBytes, slot: int, length: int, data: bytes) -> None:
    at = 0
    for view in access.receive(slot, length):
        view[:] = data[at : at + len(view)]
        at += len(view)
    assert at == len(data)
    access.received(slot)


def rows(runner: CpuRunner, slot: int, tokens: list[int], past: int) -> Logits:
    return runner.decode([Span(slot, tokens, past, len(tokens))]).copy()


@settings(max_examples=6)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    returnable=st.integers(1, on.MOST_PENDING),
)
def test_what_goes_on_from_bytes_is_what_would_have_been(
    loaded: CpuRunner, lengths: list[int], returnable: int
) -> None:
    past = 0
    for length in lengths:
        tokens = TEXT[past : past + length]
        loaded.decode([Span(0, tokens, past, 0, (), min(returnable, len(tokens)))])
        past += len(tokens)
    taken, wanted = out(loaded, 0, past), rows(loaded, 0, TEXT[:9], past)
    empty(loaded)
    soil(loaded)
    loaded.decode([Span(3, TEXT[:33], 0, 0)])  # so that it comes to other blocks
    fill(loaded.slot_bytes("m"), 1, past, taken)
    assert out(loaded, 1, past) == taken
    loaded.fork(1, 2, past)
    for slot in (1, 2):
        np.testing.assert_array_equal(rows(loaded, slot, TEXT[:9], past), wanted)
    empty(loaded)


def test_tokens_can_be_given_back_as_before(loaded: CpuRunner) -> None:
    loaded.decode([Span(0, TEXT[:50], 0, 0, (), 4)])
    taken = out(loaded, 0, 50)
    loaded.trim(0, 47)
    wanted = rows(loaded, 0, TEXT[:3], 47)
    fill(loaded.slot_bytes("m"), 1, 50, taken)
    loaded.trim(1, 47)
    np.testing.assert_array_equal(rows(loaded, 1, TEXT[:3], 47), wanted)
    empty(loaded)


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
@pytest.mark.parametrize("name", ["llama", "gemma4", "deepseek2"])
def test_the_same_tokens_are_the_same_bytes(tmp_path: Path, name: str, kv_type: KvType) -> None:
    """Whatever was in the blocks before, and what follows: nothing of that is in a file."""
    runner = load(write(tmp_path / "x.gguf", MODELS[name]), kv_type=kv_type, kv_bytes=8 << 20)
    runner.decode([Span(0, TEXT[:75], 0, 0)])
    first = out(runner, 0, 75)
    runner.decode([Span(1, TEXT[::-1], 0, 0)])
    empty(runner)
    for start in range(0, 150, 6):
        runner.decode([Span(2, TEXT[start : start + 6], start, 0)])
    assert out(runner, 2, 75) == first
    runner.close()


def test_bytes_are_read_while_a_step_of_others_runs(loaded: CpuRunner) -> None:
    loaded.decode([Span(0, TEXT[:70], 0, 0)])
    taken = out(loaded, 0, 70)
    access = loaded.slot_bytes("m")
    views, into = access.contents(0, 70), access.receive(1, 70)
    loaded.begin([Span(2, TEXT, 0, 1)], [])
    assert b"".join(views) == taken
    at = 0
    for view in into:
        view[:] = taken[at : at + len(view)]
        at += len(view)
    loaded.end()
    access.received(1)
    assert out(loaded, 1, 70) == taken
    empty(loaded)


@pytest.mark.parametrize("name", ["qwen35", "glm4moe"])
def test_drafts_of_the_model_itself_go_on_too(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "x.gguf", DRAFTING[name])
    runner = load(path, kind=MtpRunner, kv_bytes=8 << 20)
    assert isinstance(runner, MtpRunner)
    guesses = []
    runner.decode([Span(0, TEXT[:50], 0, 0)])
    taken = out(runner, 0, 50)
    for slot in (0, 1):
        runner.decode([Span(slot, TEXT[50:51], 50, 0)])
        guesses.append(runner.draft_step([Span(slot, TEXT[51:52], 51, 1)]).copy())
        runner.forget_drafts()
        empty(runner)
        soil(runner)
        fill(runner.slot_bytes("m"), 1, 50, taken)
    np.testing.assert_array_equal(guesses[0], guesses[1])
    runner.close()


def test_what_does_not_fit_changes_nothing(loaded: CpuRunner) -> None:
    access, free = loaded.slot_bytes("m"), loaded.cells_free
    loaded.decode([Span(0, TEXT[:40], 0, 0)])
    for slot, length in ((0, 41), (0, 0), (1, 1)):
        with pytest.raises(ValueError, match="holds"):
            access.contents(slot, length)
    with pytest.raises(ValueError, match="cannot take"):
        access.receive(0, 5)
    with pytest.raises(ValueError, match="cannot take"):
        access.receive(1, loaded.cells_free + 1)
    if not loaded.capabilities.can_trim:
        with pytest.raises(ValueError, match="holds"):
            access.contents(0, 39)
    access.receive(1, BLOCK + 1)
    loaded.free(1)
    empty(loaded)
    assert loaded.cells_free == free


def test_a_state_has_no_more_changes_beside_it_than_a_slot_keeps(loaded: CpuRunner) -> None:
    if loaded.capabilities.can_trim:
        pytest.skip("it has no state")
    access = loaded.slot_bytes("m")
    for count in (-1, on.MOST_PENDING + 1, 4):
        [number] = [view for view in access.receive(1, 3) if len(view) == 8]
        number[:] = count.to_bytes(8, "little", signed=True)
        with pytest.raises(ValueError, match="changes beside it"):
            access.received(1)
        loaded.free(1)


def test_the_kind_tells_model_kernels_and_layout(tmp_path: Path) -> None:
    path = write(tmp_path / "x.gguf", MODELS["llama"])
    kinds = []
    for kv_type in ("f16", "q8_0"):
        runner = load(path, kv_type=kv_type)
        kinds.append(runner.slot_bytes("digest").kind)
        runner.close()
    assert kinds[0].model == kinds[1].model == "digest"
    assert kinds[0].kernels == kinds[1].kernels
    assert kinds[0].layout != kinds[1].layout
