"""The reader is held against files written by the gguf package, whole and damaged."""

import os
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from segue.errors import ModelUnavailable
from segue.models.gguf import check_magic, files, header


def write_gguf(path: Path, alignment: int | None = None) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    if alignment is not None:
        writer.add_custom_alignment(alignment)
    writer.add_context_length(64)
    writer.add_block_count(2)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_rope_freq_base(10000.0)
    writer.add_add_bos_token(True)
    writer.add_token_list(["a", "bc", "<|end|>", "é"])
    writer.add_token_types([1, 1, 3, 1])
    writer.add_chat_template("{{ messages }}")
    writer.add_tensor("norm.weight", np.ones(32, dtype=np.float32))
    quantized = gguf.quantize(np.ones((4, 32), dtype=np.float32), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("embd.weight", quantized, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "sound.gguf")


def test_a_sound_file(sound: Path) -> None:
    head = header(sound)
    assert head.architecture == "llama"
    assert head.metadata["llama.rope.freq_base"] == 10000.0
    assert head.metadata["tokenizer.ggml.add_bos_token"] is True
    assert head.metadata["tokenizer.chat_template"] == "{{ messages }}"
    assert head.array_lengths == {"tokenizer.ggml.tokens": 4, "tokenizer.ggml.token_type": 4}
    assert (head.n_vocab, head.train_context, head.count("block_count")) == (4, 64, 2)
    assert head.count("no_such_key") == 0
    assert head.quantization == "Q8_0"
    assert head.num_params == 32 + 4 * 32
    assert head.num_bytes == sound.stat().st_size


@pytest.mark.parametrize("alignment", [None, 8, 512])
def test_tensors_lie_where_the_gguf_package_finds_them(
    tmp_path: Path, alignment: int | None
) -> None:
    path = write_gguf(tmp_path / "aligned.gguf", alignment)
    expected = [
        (t.name, tuple(int(d) for d in t.shape), t.tensor_type.name, int(t.data_offset), t.n_bytes)
        for t in gguf.GGUFReader(path).tensors
    ]
    got = [(t.name, t.shape, t.type, t.offset, t.num_bytes) for t in header(path).tensors]
    assert got == expected


edits = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4)
words = st.lists(
    st.tuples(st.integers(0, 10_000), st.sampled_from([0, 1, 2**31, 2**32, 2**63 - 1, 2**64 - 1])),
    max_size=2,
)


@given(bytes_at=edits, words_at=words, keep=st.integers(0, 10_000))
@example(bytes_at=[], words_at=[(8, 2**64 - 1)], keep=10_000)  # tensors
@example(bytes_at=[], words_at=[(16, 2**63 - 1)], keep=10_000)  # metadata entries
@settings(max_examples=300, deadline=None)
def test_a_damaged_file_is_refused_or_read_never_a_crash(
    sound: Path, bytes_at: list[tuple[int, int]], words_at: list[tuple[int, int]], keep: int
) -> None:
    data = bytearray(sound.read_bytes())
    for at, word in words_at:
        struct.pack_into("<Q", data, at % (len(data) - 8), word)
    for at, byte in bytes_at:
        data[at % len(data)] = byte
    damaged = sound.with_name("damaged.gguf")
    damaged.write_bytes(data[:keep])
    try:
        head = header(damaged)
    except ModelUnavailable:
        return
    for tensor in head.tensors:
        assert tensor.offset + tensor.num_bytes <= len(data)


def test_every_cut_is_noticed(sound: Path) -> None:
    data = sound.read_bytes()
    cut = sound.with_name("cut.gguf")
    for length in range(0, len(data) - 32, 7):  # the end is padded to the alignment of 32
        cut.write_bytes(data[:length])
        with pytest.raises(ModelUnavailable):
            header(cut)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"GGUF\x03\0\0\0", b"GGUF\x01\0\0\0", "version 1"),
        (b"GGUF\x03\0\0\0", b"GGUF\0\0\0\0", "version 0"),
        (b"GGUF\x03\0\0\0", b"GGUF\0\0\0\x03", "big-endian"),
        (b"general.file_type", b"general.alignment", "alignment is 7"),
        (
            struct.pack("<20sIQ5s", b"general.architecture", 8, 5, b"llama"),
            struct.pack("<20sIQ", b"general.architecture", 10, 5),
            "names no architecture",
        ),
        (b"general.architecture", b"general.architecturX", "architecture"),
        (b"general.file_type", b"llama.block_count", "twice"),
        (b"norm.weight", b"norm\xffweight", "UTF-8"),
        (b"norm.weight", b"norm\x1b[2Jght", r"a tensor has the name 'norm\\x1b\[2Jght'"),
        (
            b"llama.block_count",
            b"llama.block\ncount",
            r"metadata entry has the name 'llama.block\\n",
        ),
        (
            struct.pack("<Q5s", 5, b"llama"),
            struct.pack("<Q5s", 5, b"ll\x07ma"),
            r"named 'll\\x07ma'",
        ),
        (struct.pack("<IQI", 1, 32, 0), struct.pack("<IQI", 1, 32, 99), "unknown type 99.*newer"),
        (struct.pack("<IQI", 1, 32, 0), struct.pack("<IQI", 9, 32, 0), "9 dimensions"),
        (struct.pack("<IQI", 1, 32, 0), struct.pack("<IQI", 1, 33, 8), "cannot have the shape"),
        (struct.pack("<IQI", 1, 32, 0), struct.pack("<IQI", 1, 0, 0), "cannot have the shape"),
        (struct.pack("<IQI", 1, 32, 0), struct.pack("<IQI", 1, 2**62, 0), "within the file"),
    ],
)
def test_the_message_says_what_is_wrong(sound: Path, old: bytes, new: bytes, reason: str) -> None:
    data = sound.read_bytes()
    assert data.count(old) == 1
    bad = sound.with_name("bad.gguf")
    bad.write_bytes(
        data.replace(old, new) + bytes(64)
    )  # not cut off, though the new may be shorter
    with pytest.raises(ModelUnavailable, match=reason):
        header(bad)


def test_a_long_name_is_not_shown_whole(tmp_path: Path) -> None:
    """An architecture of 100,000 characters was repeated in the message."""
    path = tmp_path / "long.gguf"
    writer = gguf.GGUFWriter(path, "x" * 100_000)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(ModelUnavailable, match="its architecture cannot be named 'xxx") as refusal:
        header(path)
    assert len(refusal.value.message) < 300 + len(str(path))


@pytest.mark.parametrize(("tensors", "pairs"), [(100_001, 0), (0, 100_001)])
def test_more_entries_than_any_model_has_are_not_read(
    tmp_path: Path, tensors: int, pairs: int
) -> None:
    """A file of 256 MiB has room for 8 million, which would take minutes and gigabytes."""
    path = tmp_path / "many.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, tensors, pairs) + bytes(4_000_000))
    with pytest.raises(ModelUnavailable, match=r"claims 100001 .*, more than 100000"):
        header(path)


def test_two_tensors_in_one_place_are_refused(sound: Path) -> None:
    """As llama.cpp does: one of them is not where it was written."""
    data, path = sound.read_bytes(), sound.with_name("overlap.gguf")
    second = next(tensor for tensor in header(sound).tensors if tensor.name == "embd.weight")
    first_byte = min(tensor.offset for tensor in header(sound).tensors)
    entry = struct.pack("<IQ", 8, second.offset - first_byte)
    assert data.count(entry) == 1
    path.write_bytes(data.replace(entry, struct.pack("<IQ", 8, 0)))
    with pytest.raises(ModelUnavailable, match=r"tensors norm\.weight and embd\.weight overlap"):
        header(path)


def test_types_that_llama_cpp_alone_knows_are_no_damage(sound: Path) -> None:
    """Q2_0 has 18 bytes for 64 weights; the package gguf 0.19 does not know it."""
    data, of_floats = sound.read_bytes(), struct.pack("<IQI", 1, 32, 0)
    path = sound.with_name("q2_0.gguf")
    path.write_bytes(data.replace(of_floats, struct.pack("<IQI", 1, 64, 42)))
    (found,) = [tensor for tensor in header(path).tensors if tensor.type == "Q2_0"]
    assert (found.shape, found.num_bytes) == ((64,), 18)


def test_a_nested_array_is_refused(tmp_path: Path) -> None:
    """Nesting would recurse as deep as a hostile file says."""
    nested = tmp_path / "nested.gguf"
    entry = struct.pack("<Q3sI", 3, b"key", 9) + struct.pack("<IQ", 9, 1) * 10_000
    nested.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry)
    with pytest.raises(ModelUnavailable, match="array of the unknown type"):
        header(nested)


def test_an_array_whose_last_text_is_longer_than_the_file_is_refused(tmp_path: Path) -> None:
    """Nothing that would be read after it notices."""
    path = tmp_path / "long.gguf"
    entry = struct.pack("<Q3sIIQ", 3, b"key", 9, 8, 1) + struct.pack("<Q", 2**40)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry)
    with pytest.raises(ModelUnavailable, match="ends inside its header"):
        header(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    for path in (tmp_path / "pipe.gguf", Path(os.devnull)):
        with pytest.raises(ModelUnavailable, match="is not a file"):
            header(path)


def test_what_is_no_gguf_file(tmp_path: Path) -> None:
    other = tmp_path / "model.safetensors"
    other.write_bytes(b"PK\x03\x04 and so on")
    for path, reason in [
        (other, "not a GGUF file"),
        (tmp_path / "absent.gguf", "No such file"),
        (tmp_path, "directory"),
        (Path("nul\0.gguf"), "null"),
    ]:
        with pytest.raises(ModelUnavailable, match=reason):
            check_magic(path)


def test_a_file_is_read_once_until_it_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load asked for the header seven times, and each passed over the whole vocabulary."""
    path = write_gguf(tmp_path / "model.gguf")
    assert header(path).metadata is not header(path).metadata, "it was changed just now"
    monkeypatch.setattr(files, "_SETTLED_NS", -(10**18))
    first = header(path)
    assert header(path).metadata is first.metadata
    with path.open("ab") as file:
        file.write(bytes(32))
    again = header(path)
    assert again.metadata is not first.metadata
    assert again.num_bytes == first.num_bytes + 32
    path.unlink()
    with pytest.raises(ModelUnavailable, match="No such file"):
        header(path)
