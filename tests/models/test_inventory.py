import dataclasses
from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.models.digests import FilesDigest
from segue.models.gguf import header
from segue.models.inventory import model_facts, models_of, preview
from segue.runners.llama.runner import LlamaLoader
from tests.support.models.split_gguf import split_gguf
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
    digest = FilesDigest([path], tmp_path).wait()
    info = preview(path, "tiny", context_length=None, cache_dir=tmp_path)
    loader = LlamaLoader(str(path), "tiny", threads=1)
    runner, vocab, loaded, *_ = loader()
    runner.close()
    vocab.close()
    of_the_runner = ("runner", "fingerprint", "kv_tokens", "bos_token", "eos_token", "end_tokens")
    kept = {name: getattr(loaded, name) for name in of_the_runner}
    origin = replace(loaded.origin, digest=digest)
    assert replace(info, **kept) == replace(loaded, origin=origin)


def test_a_split_model_tells_the_same_of_all_its_files(tmp_path: Path, tiny_gguf: Path) -> None:
    """Without a tensor in the first, its vocabulary was not looked into."""
    name = next(name for name, coder in CODERS.items() if not coder.keys)
    whole = CODERS[name].write(tmp_path / "whole.gguf")
    count = len(header(whole).tensors)
    paths = split_gguf(whole, tmp_path, [0, 1, count - 1])
    num_bytes = sum(path.stat().st_size for path in paths)
    facts = model_facts(paths[0])
    assert facts == dataclasses.replace(model_facts(whole), num_bytes=num_bytes)
    digest = FilesDigest(paths, tmp_path).wait()
    one, split = (
        preview(path, "tiny", context_length=None, cache_dir=tmp_path) for path in (whole, paths[0])
    )
    assert (split.origin.num_bytes, split.origin.digest) == (num_bytes, digest)
    assert replace(split, origin=one.origin, file=one.file) == one


def test_files_of_a_split_model_are_listed_as_one() -> None:
    sizes = {
        "a.gguf": 1,
        "q/b-00002-of-00002.gguf": 20,
        "q/b-00001-of-00002.gguf": 10,
        "c-00002-of-00003.gguf": 200,  # the first is not here
        "c-00003-of-00003.gguf": 300,
    }
    assert models_of(sizes) == {
        "a.gguf": 1,
        "q/b-00001-of-00002.gguf": 30,
        "c-00002-of-00003.gguf": 500,
    }


@pytest.mark.parametrize(("asked", "context"), [(None, 512), (1024, 1024)])
def test_the_context_of_a_preview(tmp_path: Path, asked: int | None, context: int) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", context_length=512)
    info = preview(path, "tiny", context_length=asked, cache_dir=tmp_path)
    assert info.context_length == context
