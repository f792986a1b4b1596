"""Runners for the tests here: compiled once a machine, since the code is kept in the user's cache."""

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from segue import config
from segue.runners.cpu.draws import drawer
from segue.runners.cpu.products.processor import FLAVOURS, Flavour, Target
from segue.runners.cpu.runner import CpuRunner
from segue.runners.cpu.step.attention.kv_formats import KvType
from tests.support.models.tiny_gguf import write_tiny_gguf

NOT_A_HALF = 0x7E00  # not a number, as f16
BY_NAME: Mapping[str, Flavour] = {flavour.name: flavour for flavour in FLAVOURS}


def load(
    path: Path,
    *,
    kind: type[CpuRunner] = CpuRunner,
    target: Target | None = None,
    adapters: Mapping[str, str] | None = None,
    beside: CpuRunner | None = None,
    kv_type: KvType = "f16",
    **options: int,
) -> CpuRunner:
    settings: dict[str, Any] = {"num_slots": 6, "threads": 2, "max_rows": 256}
    settings |= {"kv_bytes": 512 << 10} | options
    cache_dir = config.load({}).cache_dir
    return kind(
        path,
        cache_dir=cache_dir,
        target=target,
        adapters=adapters,
        beside=beside,
        kv_type=kv_type,
        **settings,
    )


@pytest.fixture(scope="session")
def q8_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kind = gguf.GGMLQuantizationType.Q8_0
    return write_tiny_gguf(tmp_path_factory.mktemp("q8") / "tiny.gguf", tensor_type=kind)


@pytest.fixture(scope="session")
def shared_runner(q8_gguf: Path) -> Iterator[CpuRunner]:
    runner = load(q8_gguf)
    yield runner
    runner.close()


@pytest.fixture
def runner(shared_runner: CpuRunner) -> Iterator[CpuRunner]:
    yield shared_runner
    empty(shared_runner)


def be_patient(runner: CpuRunner) -> None:
    """Draws wait to be told however long that takes: threads may be without a processor on a busy machine."""
    for frame in runner._frames:
        frame.draws._instruction[drawer._NAPS] = drawer._LARGEST


class NewThreads:
    """Threads that were started since, and live. Those of other tests may come to their end at any time."""

    def __init__(self) -> None:
        self._before = set(threading.enumerate())

    def __len__(self) -> int:
        new = set(threading.enumerate()) - self._before
        return sum(each.name != "digest" for each in new)  # which ends by itself, a moment later


def soil(runner: CpuRunner) -> None:
    """Let all memory that no sequence holds have been used: what a step reads before it writes it shows in its bits."""
    slots, space = runner._slots, runner._space
    slots.kv._blocks.fill(NOT_A_HALF)
    if slots.states is not None:
        slots.states._states.fill(np.nan)
    for array in space._arrays:
        if array.dtype == np.float32:
            array.fill(np.nan)
        elif array.dtype == np.int8:
            array.fill(85)


def empty(runner: CpuRunner) -> None:
    for slot in range(runner.capabilities.num_slots):
        runner.free(slot)
    assert runner.cells_free == runner.capabilities.num_cells
