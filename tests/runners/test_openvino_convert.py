import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import gguf
import numpy as np
import pytest

from segue.errors import Incompatible
from segue.runners import openvino_convert
from segue.runners.openvino_convert import Entry, converted
from tests.tiny_gguf import DIM, FFN, HEAD_DIM, HEADS, KV_HEADS, write_tiny_gguf


class Watch:
    """A report that remembers what it was told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int]] = []

    def __call__(self, what: str, done: int, total: int) -> None:
        self.seen.append((what, done, total))

    @property
    def has_converted(self) -> bool:
        return any(what.startswith("converting") for what, _, _ in self.seen)


def weights(entry: Entry, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    values = entry.values(name).astype(np.float32)
    if entry.places[name].scales_at is None:
        return values
    scales = entry.scales(name).astype(np.float32)
    return (values.reshape(len(values), -1, 32) * scales).reshape(len(values), -1)


def test_products_of_one_input_are_joined_and_halves_of_heads_put_together(
    tiny_gguf: Path, tmp_path: Path
) -> None:
    entry = converted(tiny_gguf, tmp_path)
    source = {tensor.name: tensor.data for tensor in gguf.GGUFReader(tiny_gguf).tensors}
    joined = weights(entry, "blk.1.attn_qkv.weight")
    assert joined.shape == (DIM + 2 * KV_HEADS * HEAD_DIM, DIM)
    query = source["blk.1.attn_q.weight"].reshape(HEADS, HEAD_DIM // 2, 2, DIM)
    np.testing.assert_array_equal(joined[:DIM], query.transpose(0, 2, 1, 3).reshape(DIM, DIM))
    np.testing.assert_array_equal(joined[-KV_HEADS * HEAD_DIM :], source["blk.1.attn_v.weight"])
    gate_up = weights(entry, "blk.0.ffn_gate_up.weight")
    np.testing.assert_array_equal(gate_up[FFN:], source["blk.0.ffn_up.weight"])


def test_forms_that_differ_are_not_joined(tmp_path: Path) -> None:
    """One F16 matrix is declared BF16, which has the same size and becomes another form."""
    path = write_tiny_gguf(tmp_path / "x.gguf", tensor_type=gguf.GGMLQuantizationType.F16)
    data = bytearray(path.read_bytes())
    field = data.index(b"blk.0.ffn_up.weight") + len(b"blk.0.ffn_up.weight") + 4 + 2 * 8
    data[field : field + 4] = int(gguf.GGMLQuantizationType.BF16).to_bytes(4, "little")
    path.write_bytes(data)
    places = converted(path, tmp_path / "cache").places
    assert "blk.0.ffn_gate_up.weight" not in places
    assert (places["blk.0.ffn_gate.weight"].form, places["blk.0.ffn_up.weight"].form) == (
        "f16",
        "i8",
    )
    assert "blk.1.ffn_gate_up.weight" in places


def test_biases_are_joined_like_their_weights(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", architecture="qwen2")
    entry = converted(path, tmp_path)
    source = {tensor.name: tensor.data for tensor in gguf.GGUFReader(path).tensors}
    expected = np.concatenate([source[f"blk.0.attn_{name}.bias"] for name in "qkv"])
    np.testing.assert_array_equal(entry.values("blk.0.attn_qkv.bias"), expected)


def test_second_start_takes_what_is_there(tiny_gguf: Path, tmp_path: Path) -> None:
    first, second = Watch(), Watch()
    places = converted(tiny_gguf, tmp_path, first).places
    assert first.has_converted
    assert first.seen[-2][1] == first.seen[-2][2], "the bar reaches its end"
    assert converted(tiny_gguf, tmp_path, second).places == places
    assert not second.has_converted


def test_a_changed_file_under_the_same_name_is_another_model(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", seed=1)
    before = converted(path, tmp_path).values("blk.0.ffn_down.weight").copy()
    write_tiny_gguf(path, seed=2)
    os.utime(path, (1, 1))
    assert (converted(path, tmp_path).values("blk.0.ffn_down.weight") != before).any()


def flip_a_byte(entry: Path) -> None:
    data = bytearray((entry / "weights.bin").read_bytes())
    data[len(data) // 2] ^= 1
    (entry / "weights.bin").write_bytes(data)


def cut_short(entry: Path) -> None:
    os.truncate(entry / "weights.bin", 1000)


def empty_manifest(entry: Path) -> None:
    (entry / "manifest.json").write_bytes(b"")


def other_manifest(entry: Path) -> None:
    (entry / "manifest.json").write_bytes(b'{"shape": 3}')


def no_weights(entry: Path) -> None:
    (entry / "weights.bin").unlink()


@pytest.mark.parametrize(
    "damage", [flip_a_byte, cut_short, empty_manifest, other_manifest, no_weights]
)
def test_a_broken_entry_is_made_again(
    tiny_gguf: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    good = converted(tiny_gguf, tmp_path).data.tobytes()
    (entry,) = (tmp_path / "openvino").glob(f"*-{openvino_convert.FORMAT}")
    damage(entry)
    watch = Watch()
    assert converted(tiny_gguf, tmp_path, watch).data.tobytes() == good
    assert watch.has_converted


def convert_until_killed(path: Path, cache: Path) -> None:
    def die(what: str, done: int, total: int) -> None:
        if what.startswith("converting") and done > total // 2:
            os.kill(os.getpid(), signal.SIGKILL)

    converted(path, cache, die)


def test_a_killed_conversion_is_swept_up_and_done_again(tiny_gguf: Path, tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=convert_until_killed, args=(tiny_gguf, tmp_path)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert list((tmp_path / "openvino").glob("*.part"))
    other = tmp_path / "openvino" / "another-model.part"
    other.mkdir()
    entry = converted(tiny_gguf, tmp_path)
    assert entry.values("output_norm.weight").shape == (DIM,)
    assert not list((tmp_path / "openvino").glob("*.part"))


def test_disk_space_is_looked_at_first(
    tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1 << 20))
    with pytest.raises(Incompatible, match=r"takes 1 MiB in .*, but 1 MiB are free"):
        converted(tiny_gguf, tmp_path)
    assert not list((tmp_path / "openvino").glob("*.part"))
