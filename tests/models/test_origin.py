import hashlib
import math
from pathlib import Path

import gguf as library
import msgspec
import pytest

from segue.models.gguf import header
from segue.models.origin import gguf_origin
from segue.types import Origin
from tests.support.models.tiny_gguf import write_tiny_gguf


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "tiny.gguf", chat_template="{{ messages }}")


def test_a_file_in_a_few_words(file: Path) -> None:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    origin = gguf_origin(file, digest)
    assert (origin.format, origin.num_bytes) == ("gguf", file.stat().st_size)
    assert (origin.digest, origin.modified) == (digest, file.stat().st_mtime)
    assert origin.metadata["general.architecture"] == "llama"
    assert origin.metadata["tokenizer.ggml.model"] == "gpt2"
    assert origin.metadata["llama.context_length"] == 512
    assert origin.metadata["llama.attention.layer_norm_rms_epsilon"] == 1e-5
    assert origin == gguf_origin(file, digest, header(file))


def test_arrays_and_the_template_stay_in_the_file(file: Path) -> None:
    metadata = gguf_origin(file).metadata
    assert metadata["tokenizer.ggml.tokens"] is None
    assert "tokenizer.chat_template" not in metadata
    assert len(msgspec.msgpack.encode(metadata)) < 4096


def test_it_travels_between_processes(file: Path) -> None:
    origin = gguf_origin(file)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(origin), type=Origin) == origin


def test_a_text_without_end_is_left_out_and_large_numbers_are_not(tmp_path: Path) -> None:
    writer = library.GGUFWriter(tmp_path / "long.gguf", "llama")
    writer.add_license("x" * 100_000)
    writer.add_description("short")
    writer.add_float64("llama.large", 1e300)
    writer.add_float32("llama.endless", math.inf)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    metadata = gguf_origin(tmp_path / "long.gguf").metadata
    assert "general.license" not in metadata
    assert metadata["general.description"] == "short"
    assert (metadata["llama.large"], metadata["llama.endless"]) == (1e300, math.inf)
