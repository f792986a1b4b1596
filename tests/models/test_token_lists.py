from pathlib import Path

import gguf
import pytest

from segue.models.token_lists import damage


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
