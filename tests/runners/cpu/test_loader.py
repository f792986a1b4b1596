import hashlib
import pickle
from collections.abc import Iterable
from pathlib import Path

import pytest

from segue import config
from segue.errors import Incompatible
from segue.models.origin import gguf_origin
from segue.models.progress import silent
from segue.runners.cpu import compile, kept_code, loader
from segue.runners.cpu.kept_code import KeptCode, sources_digest
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


def test_code_that_cannot_be_kept_goes_to_the_worker_with_its_loader(
    q8_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def compile_all(types: Iterable[str], flavour: str, kept: KeptCode) -> None:
        made.append("step")
        kept(f"{sources_digest()}-x", lambda: b"machine code")

    monkeypatch.setattr(compile, "compile_all", compile_all)
    monkeypatch.setattr(kept_code, "_unwritten", {})
    (tmp_path / "file").write_text("not a folder")
    fresh = CpuLoader(str(q8_gguf), "x", cache_dir=str(tmp_path / "file"))
    sent = pickle.loads(pickle.dumps(fresh.prepared(silent)))
    assert [code for _, code in sent.code] == [b"machine code"]
    assert fresh.prepared(silent) == sent
    assert made == ["step"], "the second model of this server needs no other"
