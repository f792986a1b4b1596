"""KV in 8 bits: near to f16, and the same bits whatever the chunks, threads, forks and memory before."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from segue.engine.seam import Logits, Span
from segue.models.gguf import header
from segue.runners.cpu.loader import kv_token_bytes
from segue.runners.cpu.runner import CpuRunner
from segue.runners.cpu.slots.kv import BLOCK
from tests.runners.cpu.conftest import load, soil
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

TOKENS = [(5 * i * i + i) % 256 for i in range(300)]
# What attention may have: windows, sinks, soft caps, linear biases, keys of other layers, latents, narrow values,
# states beside it.
VARIANTS = ("llama", "gpt-oss", "gemma2", "gemma4", "bloom", "deepseek2", "mimo2", "qwen35")
SUM = "1bece4074b8e3dc37f2e8e80da6c1391e476758a4b48ecdae312d9c0c104ebad"


def read(runner: CpuRunner, slot: int, chunk: int, tokens: list[int] = TOKENS) -> Logits:
    rows = []
    for start in range(0, len(tokens), chunk):
        some = tokens[start : start + chunk]
        rows.append(runner.decode([Span(slot, some, start, len(some))]).copy())
    runner.free(slot)
    found: Logits = np.concatenate(rows)
    return found


@pytest.mark.parametrize("name", VARIANTS)
def test_every_kind_of_attention_is_near_to_f16_in_any_chunks(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "x.gguf", MODELS[name])
    logits = {}
    for kv_type, chunks in (("f16", [240]), ("q8_0", [240, 1, 17])):
        runner = load(path, kv_bytes=16 << 20, kv_type=kv_type)  # type: ignore[arg-type]
        soil(runner)
        first, *others = (read(runner, 0, chunk) for chunk in chunks)
        for other in others:
            np.testing.assert_array_equal(first, other)
        logits[kv_type] = first
        runner.close()
    off = np.abs(logits["q8_0"] - logits["f16"])
    assert off.max() > 0
    assert off.mean() < 0.05 * logits["f16"].std()  # random weights make much of little


@pytest.mark.parametrize("size", [16, 48, 80, 272])
def test_heads_need_not_be_whole_groups(tmp_path: Path, size: int) -> None:
    tiny = replace(MODELS["qwen3"], head_size=size, key_heads=1)
    runner = load(write(tmp_path / "x.gguf", tiny), kv_bytes=16 << 20, kv_type="q8_0")
    soil(runner)
    np.testing.assert_array_equal(read(runner, 0, 240), read(runner, 1, 3))
    runner.close()


@pytest.fixture(scope="module")
def coded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CpuRunner]:
    path = write(tmp_path_factory.mktemp("coded") / "x.gguf", MODELS["llama"])
    runner = load(path, kv_bytes=4 << 20, kv_type="q8_0")
    yield runner
    runner.close()


def test_the_bits_are_those_of_every_other_machine(coded: CpuRunner) -> None:
    assert hashlib.sha256(read(coded, 0, 240).tobytes()).hexdigest() == SUM


def test_forks_and_what_follows_them_are_as_alone(coded: CpuRunner) -> None:
    """The last block is copied, codes and scales."""
    whole = read(coded, 0, 240)
    coded.decode([Span(1, TOKENS[:200], 0, 0)])
    coded.fork(1, 2, 150)
    coded.decode([Span(1, [7] * 50, 200, 0)])
    found = coded.decode([Span(2, TOKENS[150:], 150, 150)])
    np.testing.assert_array_equal(found, whole[150:])
    coded.trim(2, 100)
    found = coded.decode([Span(2, TOKENS[100:], 100, 200)])
    np.testing.assert_array_equal(found, whole[100:])
    coded.free(1)
    coded.free(2)


def test_threads_and_other_sequences_change_no_bit(coded: CpuRunner, tmp_path: Path) -> None:
    alone = load(
        write(tmp_path / "x.gguf", MODELS["llama"]), kv_bytes=4 << 20, kv_type="q8_0", threads=1
    )
    whole = read(alone, 0, 240)
    alone.close()
    coded.decode([Span(3, TOKENS[:100], 0, 0), Span(4, [9] * 40, 0, 0)])
    spans = [Span(3, [TOKENS[100]], 100, 1), Span(4, [9] * 3, 40, 1), Span(5, TOKENS[:9], 0, 1)]
    np.testing.assert_array_equal(coded.decode(spans)[[0, 2]], whole[[100, 8]])
    for slot in (3, 4, 5):
        coded.free(slot)


def test_memory_holds_nearly_twice_the_tokens(tmp_path: Path) -> None:
    path = write(tmp_path / "x.gguf", replace(MODELS["qwen3"], head_size=64))
    each = kv_token_bytes(header(path), "f16", drafts=False)
    for kv_type, blocks in (("f16", 34), ("q8_0", 64)):
        runner = load(path, kv_bytes=34 * BLOCK * each, kv_type=kv_type)  # type: ignore[arg-type]
        assert runner.capabilities.num_cells == blocks * BLOCK
        runner.close()


def test_a_runner_beside_another_keeps_kv_alike(coded: CpuRunner, tmp_path: Path) -> None:
    path = write(tmp_path / "x.gguf", MODELS["llama"])
    with pytest.raises(ValueError, match="KV in q8_0"):
        load(path, beside=coded)
    beside = load(path, beside=coded, kv_type="q8_0")
    np.testing.assert_array_equal(read(beside, 0, 240), read(coded, 0, 240))
    beside.close()
