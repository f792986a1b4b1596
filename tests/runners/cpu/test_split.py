"""A model in several files: the same bits as in one, the same checks, and a digest of all of them."""

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from segue import config
from segue.engine.seam import Span
from segue.errors import Incompatible, ModelUnavailable
from segue.models import adapter_files, gguf
from segue.models.digests import FilesDigest
from segue.runners.cpu import loader
from segue.runners.cpu.architectures.tensor_types import MATRIX_TYPES
from segue.runners.cpu.loader import CpuLoader, obstacle
from segue.types import ModelInfo
from tests.runners.cpu.conftest import load
from tests.support.models.split_gguf import cut, split_gguf
from tests.support.models.tiny_lora import write_tiny_lora
from tests.support.models.tiny_types import write_types

NUM_TENSORS = 21  # of the tiny model
TOKENS = [(7 * i * i + 3) % 256 for i in range(48)]


def bits(path: Path, adapter: Path | None = None) -> bytes:
    """Of all logits."""
    runner = load(path, adapters={"own": str(adapter)} if adapter else None, kv_bytes=4 << 20)
    mix = ((0, 0.5),) if adapter else ()
    logits = runner.decode([Span(0, TOKENS, 0, len(TOKENS), mix)]).tobytes()
    runner.close()
    return logits


@given(st.lists(st.integers(0, NUM_TENSORS), max_size=4))
@example([])  # one file
@example([0, 11])  # without tensors in the first
@settings(max_examples=6)
def test_logits_are_the_same_however_it_is_cut(
    q8_gguf: Path, tmp_path_factory: pytest.TempPathFactory, places: list[int]
) -> None:
    first, *_ = split_gguf(q8_gguf, tmp_path_factory.mktemp("split"), cut(NUM_TENSORS, places))
    assert obstacle(first) is None
    assert bits(first) == bits(q8_gguf)


def test_every_type_of_weights_is_read_from_its_own_file(tmp_path: Path) -> None:
    whole = write_types(tmp_path / "types.gguf", MATRIX_TYPES)
    count = len(gguf.header(whole).tensors)
    first, *_ = split_gguf(whole, tmp_path, [1] * count)
    assert bits(first) == bits(whole)


@pytest.mark.parametrize("sizes", [(0, 21), (7, 7, 7)])
def test_adapters_are_checked_against_all_files(
    tiny_gguf: Path, tmp_path: Path, sizes: Sequence[int]
) -> None:
    """They were against the first, which need not have what they adapt."""
    adapter = write_tiny_lora(tmp_path / "lora.gguf", tiny_gguf, size=0.6)
    first, *_ = split_gguf(tiny_gguf, tmp_path, sizes)
    assert obstacle(first, [str(adapter)]) is None
    assert bits(first, adapter) == bits(tiny_gguf, adapter) != bits(first)


def test_an_adapter_in_several_files_is_refused(tiny_gguf: Path, tmp_path: Path) -> None:
    adapter = write_tiny_lora(tmp_path / "lora.gguf", tiny_gguf)
    count = len(gguf.header(adapter).tensors)
    first, *_ = split_gguf(adapter, tmp_path, [count - 1, 1])
    with pytest.raises(Incompatible, match="split into 2 files"):
        adapter_files.check(str(first), gguf.header(tiny_gguf))


@pytest.mark.parametrize("name", ["blk.1.ffn_norm.weight", "blk.1.ffn_up.weight"])
def test_weights_of_a_later_file_that_are_no_numbers_are_refused(
    tiny_gguf: Path, tmp_path: Path, name: str
) -> None:
    first, *_ = split_gguf(tiny_gguf, tmp_path, [7, 7, 7])
    read = gguf.header(first)
    (tensor,) = (each for each in read.tensors if each.name == name)
    assert tensor.file > 0
    with read.files[tensor.file].open("r+b") as file:
        file.seek(tensor.offset)
        file.write(np.float32(np.nan).tobytes())
    with pytest.raises(ModelUnavailable, match=f"tensor {name} has .* not numbers"):
        load(first)


def test_a_later_file_whose_tensors_make_no_model_is_refused(
    tiny_gguf: Path, tmp_path: Path
) -> None:
    first, *_, last = split_gguf(tiny_gguf, tmp_path, [7, 7, 7])
    last.write_bytes(last.read_bytes().replace(b"blk.1.ffn_up.weight", b"blk.1.ffn_xy.weight"))
    assert "the file lacks tensors (blk.1.ffn_up.weight)" in (obstacle(first) or "")
    with pytest.raises(Incompatible, match="lacks tensors"):
        load(first)


def loaded(path: Path) -> ModelInfo:
    made = CpuLoader(str(path), "x", threads=1, cache_dir=str(config.load({}).cache_dir))
    runner, vocab, info, *_ = made()
    runner.close()
    vocab.close()
    return info


def test_the_digest_is_of_all_files(q8_gguf: Path, tmp_path: Path) -> None:
    paths = split_gguf(q8_gguf, tmp_path, [0, 10, 11])
    info, whole = loaded(paths[0]), loaded(q8_gguf)
    lines = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}\n" for path in paths)
    assert info.origin.digest == hashlib.sha256(lines.encode()).hexdigest()
    assert info.origin.num_bytes == sum(path.stat().st_size for path in paths)
    assert (info.num_params, info.size_bytes) == (whole.num_params, whole.size_bytes)
    assert info.fingerprint != whole.fingerprint
    norm = gguf.header(paths[0]).tensors[-1]
    assert norm.file == 2
    with paths[2].open("r+b") as file:
        file.seek(norm.offset)
        file.write(np.float32(0.5).tobytes())
    assert loaded(paths[0]).fingerprint not in (info.fingerprint, whole.fingerprint)


def test_a_later_file_that_is_changed_while_it_is_read(
    q8_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = split_gguf(q8_gguf, tmp_path, [10, 11])

    class Changing(FilesDigest):
        def wait(self) -> str:
            super().wait()
            os.truncate(last, last.stat().st_size - 1)
            return super().wait()

    monkeypatch.setattr(loader, "FilesDigest", Changing)
    with pytest.raises(ModelUnavailable, match=f"{last.name} was changed while it was read"):
        loaded(first)


def test_one_that_is_another_number_of_files_meanwhile(
    q8_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its digest would be of some of the files that its weights are from."""
    first, _ = split_gguf(q8_gguf, tmp_path, [10, 11])
    split = first.replace(tmp_path / "aside.gguf")
    shutil.copyfile(q8_gguf, first)

    class Replacing(FilesDigest):
        def __init__(self, paths: Sequence[Path | str], cache_dir: Path | str):
            super().__init__(paths, cache_dir)
            split.replace(first)

    monkeypatch.setattr(loader, "FilesDigest", Replacing)
    with pytest.raises(ModelUnavailable, match="was changed while it was read"):
        loaded(first)
