from pathlib import Path
from typing import Any

import gguf
import pytest

from tests.support.models.quick_writer import Writer


@pytest.mark.parametrize(
    "items",
    [
        ["a", "", "é", "\0\n"],
        ["a", b"\xff\xfe", ""],
        [b"\xff"],
        [1, -7, 2**31 - 1],
        [gguf.TokenType.NORMAL, gguf.TokenType.CONTROL],
        [True, False],
        [0.5, -1.0],
        ("a", "b"),
        b"bytes",
    ],
    ids=str,
)
def test_files_are_those_of_ggufs_own_writer(tmp_path: Path, items: Any) -> None:
    def written(kind: type[Any]) -> bytes:
        path = tmp_path / kind.__name__
        writer = kind(path, "llama")
        writer.add_array("x", items)
        writer.add_token_list(["some", "tokens"])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        return path.read_bytes()

    assert written(Writer) == written(gguf.GGUFWriter)
