import json
import math
from pathlib import Path
from typing import Any

import gguf
import pytest

from segue.models.gguf import header
from segue.models.gguf.lists import TENSORS, lists_of_loaded
from segue.models.origin import gguf_origin
from tests.support.models.split_gguf import split_gguf
from tests.support.models.tiny_gguf import write_tiny_gguf


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "tiny.gguf")


def read(path: Path) -> dict[str, Any]:
    lists = lists_of_loaded(path, gguf_origin(path))
    return {key: json.loads(text) for key, text in lists.items()}


def test_arrays_are_those_that_the_gguf_package_reads(file: Path) -> None:
    fields = gguf.GGUFReader(file).fields
    lists = read(file)
    assert set(lists) == {*header(file).array_lengths, TENSORS}
    for key in header(file).array_lengths:
        assert lists[key] == fields[key].contents()


def test_every_tensor_is_listed(file: Path) -> None:
    assert read(file)[TENSORS] == [
        {"name": tensor.name, "type": tensor.type, "shape": list(tensor.shape)}
        for tensor in header(file).tensors
    ]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([True, False], [True, False]),
        ([1, -2, 3], [1, -2, 3]),
        ([0.5, math.inf], [0.5, None]),  # JSON has no infinity
        (["a", "é", ""], ["a", "é", ""]),
    ],
)
def test_arrays_of_every_kind(tmp_path: Path, values: list[Any], told: list[Any]) -> None:
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    writer.add_array("llama.values", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert read(tmp_path / "x.gguf") == {"llama.values": told, TENSORS: []}


def test_texts_that_are_not_utf8_are_told_as_well_as_they_can(file: Path) -> None:
    [*before, last] = read(file)["tokenizer.ggml.tokens"]
    text = len(last).to_bytes(8, "little") + last.encode()
    data = file.read_bytes()
    assert data.count(text) == 1
    file.write_bytes(data.replace(text, text[:-1] + b"\xff"))
    assert read(file)["tokenizer.ggml.tokens"] == [*before, last[:-1] + "\ufffd"]


@pytest.mark.parametrize("change", ["cut", "replaced", "gone"])
def test_a_file_that_was_changed_since_has_none(file: Path, change: str) -> None:
    """Its path was told to clients, in an error; or they were told the lists of another model."""
    origin = gguf_origin(file)
    assert TENSORS in lists_of_loaded(file, origin)
    if change == "gone":
        file.unlink()
    elif change == "cut":
        file.write_bytes(file.read_bytes()[:1000])
    else:
        write_tiny_gguf(file, fim=False)
    assert lists_of_loaded(file, origin) == {}


def test_a_split_model_has_the_lists_of_all_files_until_one_is_changed(
    file: Path, tmp_path: Path
) -> None:
    first, *_, last = split_gguf(file, tmp_path, [0, 10, 11])
    origin = gguf_origin(first)
    assert lists_of_loaded(first, origin) == lists_of_loaded(file, gguf_origin(file))
    last.write_bytes(last.read_bytes() + bytes(32))
    assert lists_of_loaded(first, origin) == {}
