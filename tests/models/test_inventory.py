import dataclasses
from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.models.inventory import model_facts, preview
from segue.runners.llama.runner import LlamaLoader
from tests.support.models.tiny_coders import CODERS
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write


@pytest.mark.parametrize("name", CODERS)
def test_files_with_tokens_for_gaps_are_known_by_them(tmp_path: Path, name: str) -> None:
    assert model_facts(CODERS[name].write(tmp_path / "x.gguf")).has_fim


def test_the_keys_of_a_file_name_such_tokens_however_they_are_spelled(tmp_path: Path) -> None:
    named = next(coder for coder in CODERS.values() if coder.keys and not coder.is_sentencepiece)
    other = {"prefix": "[HEAVY]", "suffix": "[MASK]", "middle": "[SEP]"}
    assert model_facts(dataclasses.replace(named, markers=other).write(tmp_path / "x.gguf")).has_fim


def test_other_files_have_none(tmp_path: Path) -> None:
    assert not model_facts(write(tmp_path / "x.gguf", MODELS["llama"])).has_fim


def test_a_file_tells_of_its_model_before_it_is_loaded(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", context_length=512, chat_template="{{ messages }}")
    info = preview(path, "tiny", context_length=None, longest=8192, digest="ab")
    loader = LlamaLoader(str(path), "tiny", threads=1)
    runner, vocab, loaded, *_ = loader()
    runner.close()
    vocab.close()
    of_the_runner = ("runner", "fingerprint", "kv_tokens", "bos_token", "eos_token", "end_tokens")
    kept = {name: getattr(loaded, name) for name in of_the_runner}
    origin = replace(loaded.origin, digest="ab")
    assert replace(info, **kept) == replace(loaded, origin=origin)


@pytest.mark.parametrize(
    ("asked", "longest", "context"), [(None, 8192, 512), (None, 256, 256), (1024, 8192, 1024)]
)
def test_the_context_of_a_preview(
    tmp_path: Path, asked: int | None, longest: int, context: int
) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", context_length=512)
    info = preview(path, "tiny", context_length=asked, longest=longest)
    assert info.context_length == context
