"""Files of slots: what was written comes back, and nothing else is taken for it."""

import errno
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.engine.seam import SlotKind
from segue.engine.slots import slot_file
from segue.engine.slots.slot_file import SlotHeader, SlotReader, owner_of, packed_tokens, write
from segue.errors import InvalidField
from tests.support.waiting import PATIENCE_S

KIND = SlotKind("model", "kernels", "layout")
DATA = bytes(range(256)) * 9


def header(owner: str = "", size: int = len(DATA), **fields: Any) -> SlotHeader:
    values: dict[str, Any] = {
        "kind": KIND,
        "owner": owner_of(owner),
        "adapters": (("d", 0.5),),
        "tokens": packed_tokens([1, 70000]),
    }
    return SlotHeader(num_bytes=size, **(values | fields))


def read(path: Path, size: int = len(DATA)) -> bytes:
    into = bytearray(size)
    with SlotReader(path) as reader:
        reader.check()
        reader.fill([memoryview(into)[: size // 3], memoryview(into)[size // 3 :]])
    return bytes(into)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "a.bin"
    assert write(path, header(), [memoryview(DATA)]) == path.stat().st_size
    return path


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50), st.binary(max_size=300))
def test_what_was_written_comes_back(
    tmp_path_factory: pytest.TempPathFactory, tokens: list[int], data: bytes
) -> None:
    path = tmp_path_factory.mktemp("a") / "x"
    whole = header(tokens=packed_tokens(tokens), size=len(data))
    size = write(path, whole, [memoryview(data)[:7], memoryview(data)[7:]])
    with SlotReader(path) as reader:
        assert (reader.header, reader.size) == (whole, size)
        assert reader.header.token_ids == tokens
    assert read(path, len(data)) == data


def test_pieces_larger_than_what_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_file, "_PIECE", 100)
    write(tmp_path / "x", header(), [memoryview(DATA)])
    assert read(tmp_path / "x") == DATA


def test_a_file_that_was_cut_anywhere_is_refused(saved: Path) -> None:
    whole = saved.read_bytes()
    for length in [*range(200), *range(200, len(whole), 97), len(whole) - 1]:
        saved.write_bytes(whole[:length])
        with pytest.raises(InvalidField, match=r"cut short|no saved slot"):
            read(saved)
    saved.write_bytes(whole + b"x")
    with pytest.raises(InvalidField, match="damaged"):
        read(saved)


def test_a_file_with_any_other_byte_is_refused(saved: Path) -> None:
    whole = saved.read_bytes()
    for place in [*range(230), *range(230, len(whole), 61)]:
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        saved.write_bytes(changed)
        with pytest.raises(InvalidField, match=r"damaged|no saved slot|another version"):
            read(saved)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"SegueSlt", slot_file.MAGIC + b"\xff" * 80])
def test_what_is_no_slot_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(InvalidField, match=r"no saved slot|damaged|another version"):
        read(path)


def test_no_file_a_folder_and_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    names = ["none", "folder"]
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        names.append("pipe")
    for name in names:
        with pytest.raises(InvalidField, match="no saved slot of that name"):
            SlotReader(tmp_path / name)


def test_a_slot_of_ones_own_is_replaced_and_nothing_else(saved: Path) -> None:
    write(saved, header(size=3), [memoryview(b"abc")])
    assert read(saved, 3) == b"abc"
    with pytest.raises(InvalidField, match="no slot that you saved"):
        write(saved, header("another"), [memoryview(DATA)])
    assert read(saved, 3) == b"abc"
    model = saved.parent / "model.gguf"
    model.write_bytes(b"GGUF of much work")
    with pytest.raises(InvalidField, match="no slot that you saved"):
        write(model, header(), [memoryview(DATA)])
    assert model.read_bytes() == b"GGUF of much work"


def test_a_full_disk_leaves_what_was_there(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def fail(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="space"):
        write(saved, header(size=3), [memoryview(b"abc")])
    assert [*saved.parent.iterdir()] == [saved]
    assert saved.read_bytes() == before


def test_a_file_that_changes_after_it_was_checked_is_noticed(saved: Path) -> None:
    into = bytearray(len(DATA))
    with SlotReader(saved) as reader:
        reader.check()
        changed = bytearray(saved.read_bytes())
        changed[-100] ^= 1
        saved.write_bytes(changed)
        with pytest.raises(InvalidField, match="damaged"):
            reader.fill([memoryview(into)])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows refuses one of two renames at once")
def test_of_several_that_write_one_name_at_once_the_last_wins_whole(tmp_path: Path) -> None:
    """Two models, say. Each writes while the others do: its contents are made piece by piece."""
    path = tmp_path / "a.bin"
    several = threading.Barrier(4)
    datas = [bytes([number]) * len(DATA) for number in range(4)]

    def pieces(data: bytes) -> Iterator[memoryview]:
        yield memoryview(data)[:100]
        several.wait(PATIENCE_S)
        yield memoryview(data)[100:]

    with ThreadPoolExecutor(4) as threads:
        for written in [threads.submit(write, path, header(), pieces(data)) for data in datas]:
            written.result()
    assert read(path) in datas
    assert [*tmp_path.iterdir()] == [path]
