import hashlib
from pathlib import Path

import pytest

from segue import config
from segue.errors import Incompatible
from segue.models.origin import gguf_origin
from segue.runners.cpu import loader
from segue.runners.cpu.loader import CpuLoader


def test_a_vocabulary_that_cannot_be_read_is_why_loading_fails(
    q8_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read on a thread of its own, beside the weights."""

    def refuse(path: str) -> None:
        raise Incompatible(f"{path} holds no vocabulary")

    monkeypatch.setattr(loader, "LlamaVocab", refuse)
    made = CpuLoader(str(q8_gguf), "x", threads=1, cache_dir=str(config.load({}).cache_dir))
    with pytest.raises(Incompatible, match="holds no vocabulary"):
        made()


def test_the_file_is_told_with_its_digest(q8_gguf: Path) -> None:
    made = CpuLoader(str(q8_gguf), "x", threads=1, cache_dir=str(config.load({}).cache_dir))
    runner, vocab, info, *_ = made()
    runner.close()
    vocab.close()
    digest = hashlib.sha256(q8_gguf.read_bytes()).hexdigest()
    assert info.origin == gguf_origin(q8_gguf, digest)
