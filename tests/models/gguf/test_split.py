"""Models in several files: the whole is what one file would be, and nothing is taken that is not all there."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import gguf
import pytest
from gguf import GGUFValueType as Kind
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.errors import ModelUnavailable
from segue.models.gguf import GgufHeader, header, split
from segue.models.gguf.files import modified
from segue.runners.llama import c_api
from tests.support.models.split_gguf import COUNT, NUMBER, TENSORS, Entries, cut, split_gguf

NUM_TENSORS = 21  # of the tiny model
FIRST, SECOND, THIRD = (f"split-0000{i}-of-00003.gguf" for i in (1, 2, 3))


def contents(read: GgufHeader) -> list[tuple[object, ...]]:
    """What the tensors are, with their bytes."""
    files = [path.read_bytes() for path in read.files]
    return [
        (t.name, t.shape, t.type, files[t.file][t.offset : t.offset + t.num_bytes])
        for t in read.tensors
    ]


def settings_of(read: GgufHeader) -> dict[str, object]:
    return {key: value for key, value in read.metadata.items() if not key.startswith("split.")}


@given(st.lists(st.integers(0, NUM_TENSORS), max_size=6))
@settings(max_examples=25)
def test_however_it_is_cut_the_whole_is_the_same(
    tiny_gguf: Path, tmp_path_factory: pytest.TempPathFactory, places: list[int]
) -> None:
    paths = split_gguf(tiny_gguf, tmp_path_factory.mktemp("split"), cut(NUM_TENSORS, places))
    whole, one = header(paths[0]), header(tiny_gguf)
    assert whole.files == tuple(paths)
    assert whole.num_bytes == sum(path.stat().st_size for path in paths)
    assert contents(whole) == contents(one)
    assert settings_of(whole) == settings_of(one)
    assert whole.array_lengths == one.array_lengths
    assert (whole.num_params, whole.architecture) == (one.num_params, one.architecture)


@pytest.mark.parametrize("sizes", [(21,), (10, 11), (7, 7, 7), (0, 21), (0, 10, 11)])
def test_the_files_of_these_tests_are_such_as_llama_cpp_opens(
    tiny_gguf: Path, tmp_path: Path, sizes: Sequence[int]
) -> None:
    first, *_ = split_gguf(tiny_gguf, tmp_path, sizes)
    api, model = c_api.load(), c_api.open_model(str(first))
    assert api.llama_model_n_params(model) == header(first).num_params
    api.llama_model_free(model)


@pytest.mark.parametrize("is_first_empty", [False, True])
def test_what_the_gguf_package_splits_is_read(
    tiny_gguf: Path, tmp_path: Path, is_first_empty: bool
) -> None:
    writer = gguf.GGUFWriter(
        tmp_path / "tiny.gguf", "llama", split_max_tensors=8, small_first_shard=is_first_empty
    )
    for tensor in gguf.GGUFReader(tiny_gguf).tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    count = 4 if is_first_empty else 3
    whole = header(tmp_path / f"tiny-00001-of-0000{count}.gguf")
    assert len(whole.files) == count
    assert contents(whole) == contents(header(tiny_gguf))


@pytest.mark.parametrize("number", [1, 2])
def test_a_file_after_the_first_says_which_to_name(
    tiny_gguf: Path, tmp_path: Path, number: int
) -> None:
    paths = split_gguf(tiny_gguf, tmp_path, [7, 7, 7])
    with pytest.raises(
        ModelUnavailable, match=rf"file {number + 1} of 3 .* name the first, {FIRST}"
    ):
        header(paths[number])
    renamed = paths[number].rename(tmp_path / "other.gguf")
    with pytest.raises(
        ModelUnavailable, match=r"name the first, whose name ends in -00001-of-00003"
    ):
        header(renamed)


def renamed(paths: list[Path]) -> Path:
    return paths[0].rename(paths[0].with_name("model.gguf"))


def gone(paths: list[Path]) -> Path:
    for path in paths[1:]:
        path.unlink()
    return paths[0]


def cut_short(paths: list[Path]) -> Path:
    paths[2].write_bytes(paths[2].read_bytes()[:-64])
    return paths[0]


def cut_in_its_header(paths: list[Path]) -> Path:
    paths[1].write_bytes(paths[1].read_bytes()[:300])
    return paths[0]


def empty(paths: list[Path]) -> Path:
    paths[1].write_bytes(b"")
    return paths[0]


def no_gguf(paths: list[Path]) -> Path:
    paths[1].write_bytes(b"<!doctype html>")
    return paths[0]


def folder(paths: list[Path]) -> Path:
    paths[1].unlink()
    paths[1].mkdir()
    return paths[0]


def swapped(paths: list[Path]) -> Path:
    second = paths[1].read_bytes()
    paths[1].write_bytes(paths[2].read_bytes())
    paths[2].write_bytes(second)
    return paths[0]


def first_again(paths: list[Path]) -> Path:
    paths[1].write_bytes(paths[0].read_bytes())
    return paths[0]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (renamed, r"first of 3 files, but its name does not end in -00001-of-00003\.gguf"),
        (gone, f"first of 3 files, .* not there: {SECOND}, {THIRD}"),
        (cut_short, f"{THIRD} is not a sound .* within the file; it may be cut off"),
        (cut_in_its_header, f"{SECOND} is not a sound GGUF file: it ends inside its header"),
        (empty, f"{SECOND} is empty: fetch it again"),
        (no_gguf, f"{SECOND} is not a GGUF file"),
        (folder, f"cannot read .*{SECOND}"),
        (swapped, f"{SECOND} has split.no 2, not 1"),
        (first_again, f"{SECOND} has split.no 0, not 1"),
    ],
)
def test_files_that_are_not_all_there_are_refused(
    tiny_gguf: Path, tmp_path: Path, damage: Callable[[list[Path]], Path], reason: str
) -> None:
    first = damage(split_gguf(tiny_gguf, tmp_path, [7, 7, 7]))
    with pytest.raises(ModelUnavailable, match=reason):
        header(first)


def test_of_many_missing_files_some_are_named(tiny_gguf: Path, tmp_path: Path) -> None:
    first = gone(split_gguf(tiny_gguf, tmp_path, [21, *[0] * 11]))
    with pytest.raises(ModelUnavailable, match=r"-00004-of-00012\.gguf and 8 more$"):
        header(first)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({0: {NUMBER: None}}, f"{FIRST} has split.no None, not 0"),
        ({1: {NUMBER: None}}, f"{SECOND} has split.no None, not 1"),
        ({2: {NUMBER: (1, Kind.UINT16)}}, f"{THIRD} has split.no 1, not 2"),
        ({1: {NUMBER: (1, Kind.UINT32)}}, "split.no is not of the type"),
        ({0: {COUNT: (3, Kind.UINT32)}}, "split.count is not of the type"),
        ({0: {TENSORS: (21, Kind.UINT32)}}, "split.tensors.count is not of the type"),
        ({1: {COUNT: (2, Kind.UINT16)}}, f"{SECOND} has split.count 2, the first file 3"),
        ({1: {TENSORS: (20, Kind.INT32)}}, f"{SECOND} has split.tensors.count 20, the first file 21"),
        ({i: {TENSORS: (22, Kind.INT32)} for i in range(3)}, "count is 22, but its 3 files have 21"),
        ({i: {TENSORS: None} for i in range(3)}, "count is None, but its 3 files have 21"),
        ({2: {"general.architecture": ("qwen2", Kind.STRING)}}, f"{THIRD} is for qwen2, the first"),
        ({0: {"general.architecture": None}}, "it names no architecture"),
        ({0: {COUNT: (2, Kind.UINT16)}}, "its name does not end in -00001-of-00002"),
    ],
)  # fmt: skip
def test_files_that_say_something_else_are_refused(
    tiny_gguf: Path, tmp_path: Path, changed: Mapping[int, Entries], reason: str
) -> None:
    first, *_ = split_gguf(tiny_gguf, tmp_path, [7, 7, 7], changed=changed)
    with pytest.raises(ModelUnavailable, match=reason):
        header(first)


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ((7, 8, 6), f"tensor .* is in {SECOND} and in {THIRD}"),
        ((8, 6, 7), "count is 21, but its 3 files have 20 tensors"),
    ],
)
def test_files_of_two_splits_are_not_one_model(
    tiny_gguf: Path, tmp_path: Path, sizes: Sequence[int], reason: str
) -> None:
    paths = split_gguf(tiny_gguf, tmp_path, [7, 7, 7])
    other = tmp_path / "other"
    other.mkdir()
    paths[1].write_bytes(split_gguf(tiny_gguf, other, sizes)[1].read_bytes())
    with pytest.raises(ModelUnavailable, match=reason):
        header(paths[0])


@pytest.fixture(scope="module")
def sound(tiny_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return split_gguf(tiny_gguf, tmp_path_factory.mktemp("sound"), [7, 7, 7])


@given(
    edits=st.lists(st.tuples(st.integers(0, 800), st.integers(0, 255)), max_size=4),
    keep=st.integers(0, 2000) | st.just(1 << 30),
)
@settings(max_examples=150)
def test_a_damaged_later_file_is_refused_or_read_never_a_crash(
    sound: list[Path], edits: list[tuple[int, int]], keep: int
) -> None:
    before = sound[1].read_bytes()
    data = bytearray(before)
    for at, byte in edits:
        data[at] = byte
    sound[1].write_bytes(data[:keep])
    try:
        read = header(sound[0])
        for tensor in read.tensors:
            assert tensor.offset + tensor.num_bytes <= read.files[tensor.file].stat().st_size
    except ModelUnavailable:
        pass
    finally:
        sound[1].write_bytes(before)


def test_later_files_may_leave_out_what_the_first_says(tiny_gguf: Path, tmp_path: Path) -> None:
    """As llama.cpp lets them."""
    changed: Mapping[int, Entries] = {1: {COUNT: None, TENSORS: None}}
    first, *_ = split_gguf(tiny_gguf, tmp_path, [10, 11], changed=changed)
    assert len(header(first).tensors) == NUM_TENSORS


def test_a_model_was_changed_when_the_last_of_its_files_was(
    tiny_gguf: Path, tmp_path: Path
) -> None:
    paths = split_gguf(tiny_gguf, tmp_path, [7, 7, 7])
    for path, seconds in zip(paths, (1000, 3000, 2000), strict=True):
        os.utime(path, (seconds, seconds))
    assert modified(header(paths[0])) == 3000


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("a.gguf", ["a.gguf"]),
        ("a-00001-of-00001.gguf", ["a-00001-of-00001.gguf"]),
        ("d/a-00002-of-00002.gguf", ["d/a-00001-of-00002.gguf", "d/a-00002-of-00002.gguf"]),
        ("a-00003-of-00002.gguf", ["a-00003-of-00002.gguf"]),
        ("a-00000-of-00002.gguf", ["a-00000-of-00002.gguf"]),
        ("a-1-of-2.gguf", ["a-1-of-2.gguf"]),
        ("a-٠٠٠٠١-of-٠٠٠٠٢.gguf", ["a-٠٠٠٠١-of-٠٠٠٠٢.gguf"]),
        ("a-00001-of-00002.gguf.part", ["a-00001-of-00002.gguf.part"]),
        ("a-00001-of-00002-00001-of-00001.gguf", ["a-00001-of-00002-00001-of-00001.gguf"]),
    ],
)
def test_names(name: str, names: list[str]) -> None:
    assert split.siblings(name) == names
    assert split.is_later(name) == (name != names[0])
