"""Memory where the system offers less than Linux does."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from segue.models.gguf import Tensor
from segue.runners.cpu import memory, weights
from segue.runners.cpu.products import matrix


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
    packed = matrix._memory(10)
    packed[:4] = b"1234"
    assert packed[:6] == b"1234\0\0"


@pytest.mark.usefixtures("bare")
def test_a_file_is_read_where_its_pages_cannot_be_let_go(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"weights" * 1000)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        weights._let_go(view, Tensor("w", (7, 1000), "F32", 0, 7000))
        assert view[:7] == b"weights"


def test_no_system_tells_of_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_lines", lambda path: [])
    assert memory.available_bytes() == 8 << 30
