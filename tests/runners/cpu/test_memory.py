"""Memory where the system offers less than Linux does."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from segue import machine
from segue.errors import Incompatible
from segue.models.gguf import Tensor
from segue.runners.cpu import memory, weights
from segue.runners.cpu.products import matrix
from segue.runners.cpu.products.processor import this_target
from segue.runners.cpu.weights import Weights


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows: no private mappings, no advice."""
    for name in ("MAP_PRIVATE", "MADV_HUGEPAGE", "MADV_DONTNEED"):
        monkeypatch.delattr(mmap, name, raising=False)
    monkeypatch.setattr(memory, "_PRIVATE", {})


@pytest.mark.usefixtures("bare")
def test_memory_needs_neither_huge_pages_nor_private_ones() -> None:
    made = memory.zeros((3, 5), np.float32, huge=True)
    made += 1
    assert made.sum() == 15
    assert memory.address(made) % mmap.PAGESIZE == 0
    packed = memory.pages(10, huge=True)
    packed[:4] = b"1234"
    assert packed[:6] == b"1234\0\0"


@pytest.mark.usefixtures("bare")
def test_a_file_is_read_where_its_pages_cannot_be_let_go(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"weights" * 1000)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        weights._let_go([view], Tensor("w", (7, 1000), "F32", 0, 7000))
        assert view[:7] == b"weights"


@pytest.mark.parametrize("count", [2**50, 2**62, 2**70])
def test_more_than_the_system_gives_is_refused(count: int) -> None:
    with pytest.raises(Incompatible, match="GiB of memory at once: choose a smaller model"):
        memory.zeros(count, np.float32)


def test_weights_that_do_not_fit_are_refused(
    tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "pages", lambda size, huge: memory.pages(2**60, huge))
    with pytest.raises(Incompatible, match="GiB of memory at once"):
        Weights(tiny_gguf, this_target(), threads=1)


@pytest.mark.parametrize(("told", "expected"), [(None, 8 << 30), (0, 0), (5, 5)])
def test_what_is_available(
    monkeypatch: pytest.MonkeyPatch, told: int | None, expected: int
) -> None:
    monkeypatch.setattr(machine, "memory", lambda: machine.Memory(9, told))
    assert memory.available_bytes() == expected
