import struct
from pathlib import Path

import gguf
import pytest

from segue.errors import ModelUnavailable
from segue.models.token_lists import damage
from segue.models.vocabulary.gguf_vocab import GgufVocab
from segue.runners.llama.vocab import LlamaVocab
from tests.support.models.vocabulary_files import BYTE, NORMAL, VocabularyFile


def write(path: Path, tokens: list[bytes] | list[int]) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("tokenizer.ggml.tokens", tokens)
    writer.add_array("tokenizer.ggml.merges", ["a b", "a b"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        ([b"a", b"b", "é".encode()], None),
        ([b"a", b"", b"b", b""], None),  # llama.cpp gives these names
        ([b"\xc3", b"\xa9"], None),
        ([b"a", b"b", b"c", b"b"], "tokens 1 and 3 are both b'b'"),
        ([b"\xff", b"\xff"], "tokens 0 and 1 are both b'\\xff'"),
        ([b"x" * 99, b"x" * 99], "tokens 0 and 1 are both b'" + "x" * 38),
        ([1, 1], None),
        ([b"a\0b", b"a\0"], "tokens 0 and 1 are both b'a'"),  # it reads up to the first NUL
        ([b"", b"[EMPTY_0]"], "tokens 0 and 1 are both b'[EMPTY_0]'"),
        ([b"\0", b"[EMPTY_1]"], None),
    ],
)
def test_no_token_is_there_twice(tmp_path: Path, tokens: list[bytes], reason: str | None) -> None:
    assert damage(write(tmp_path / "x.gguf", tokens)) == reason


def test_a_file_without_tokens(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert damage(tmp_path / "x.gguf") is None


def test_an_empty_list_of_tokens(tmp_path: Path) -> None:
    """llama.cpp reads it, and ends the process at the first text."""
    path = VocabularyFile("gpt2", ["only one"], merges=["a a"]).write(tmp_path / "x.gguf")
    data, one = path.read_bytes(), struct.pack("<IQQ8s", 8, 1, 8, b"only one")
    assert data.count(one) == 1
    path.write_bytes(data.replace(one, struct.pack("<IQ", 8, 0)))
    assert damage(path) == "it has no tokens"
    for read in (GgufVocab, LlamaVocab):
        with pytest.raises(ModelUnavailable, match="it has no tokens"):
            read(path)


def test_tokens_that_are_bytes_where_there_are_none(tmp_path: Path) -> None:
    for model, reason in (
        ("bert", "some tokens are bytes, which this kind (bert) has not"),
        ("llama", None),
    ):
        file = VocabularyFile(model, ["a", "<0x0A>"], [NORMAL, BYTE])
        assert damage(file.write(tmp_path / "x.gguf")) == reason
