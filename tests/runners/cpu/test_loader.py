import hashlib
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from segue import config, machine
from segue.errors import Incompatible
from segue.models.origin import gguf_origin
from segue.models.progress import silent
from segue.runners.cpu import compile, kept_code, loader
from segue.runners.cpu.kept_code import KeptCode
from segue.runners.cpu.loader import CpuLoader
from segue.runners.cpu.slots import states
from segue.runners.llama import c_api
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write


def test_a_vocabulary_that_cannot_be_read_is_why_loading_fails(
    q8_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read on a thread of its own, beside the weights."""

    def refuse(path: str) -> None:
        raise Incompatible(f"{path} holds no vocabulary")

    monkeypatch.setattr(loader, "open_vocab", refuse)
    made = CpuLoader(str(q8_gguf), "x", threads=1, cache_dir=str(config.load({}).cache_dir))
    with pytest.raises(Incompatible, match="holds no vocabulary"):
        made()


def test_without_llama_cpp_the_same_is_served(
    q8_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows, where its library exports no functions."""
    made = CpuLoader(str(q8_gguf), "x", threads=1, cache_dir=str(config.load({}).cache_dir))
    infos, tokens = [], []
    for is_missing in (False, True):
        if is_missing:
            monkeypatch.setattr(c_api, "load", _missing)
        runner, vocab, info, *_ = made()
        tokens.append(vocab.tokenize("the é<|endoftext|>", True, True))
        infos.append(info)
        runner.close()
        vocab.close()
    assert infos[0] == infos[1]
    assert tokens[0] == tokens[1]


def _missing() -> None:
    raise Incompatible("xllamacpp exports nothing")


def test_fewer_states_than_slots_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "x.gguf", MODELS["lfm2"])
    cache_dir = str(config.load({}).cache_dir)
    made = CpuLoader(str(path), "x", threads=1, num_slots=5, cache_dir=cache_dir)
    # two layers, each with ten inputs of 64 channels: a convolution's two, and eight that may be given back
    monkeypatch.setattr(states, "available_bytes", lambda: 4 * 3 * 4 * 2 * 10 * 64)
    runner, vocab, info, *_ = made()
    runner.close()
    vocab.close()
    assert (info.num_states, info.state_bytes) == (3, 5120)
    assert (
        "memory holds 3 states of sequences, not 5 (--num-slots): each takes 5.1 kB" in caplog.text
    )


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

    def make() -> bytes:
        made.append("step")
        return b"machine code"

    def compile_all(types: object, flavour: str, kept: KeptCode, *others: object) -> None:
        kept("step", make)

    monkeypatch.setattr(compile, "compile_all", compile_all)
    monkeypatch.setattr(kept_code, "_unwritten", {})
    (tmp_path / "file").write_text("not a folder")
    fresh = CpuLoader(str(q8_gguf), "x", cache_dir=str(tmp_path / "file"))
    sent = pickle.loads(pickle.dumps(fresh.prepared(silent)))
    assert [code for _, code in sent.code] == [b"machine code"]
    assert fresh.prepared(silent) == sent
    assert made == ["step"], "the second model of this server needs no other"


def test_phases_that_few_models_have_are_compiled_for_those_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And before such a model is loaded, whatever was compiled for others of the same types."""
    asked: list[Sequence[str]] = []

    def compile_all(
        types: object, flavour: str, kept: KeptCode, rare: Sequence[str], kv_type: str
    ) -> None:
        asked.append(rare)

    monkeypatch.setattr(compile, "compile_all", compile_all)
    for name in ("llama", "gemma3n", "gemma4", "gemma3n"):
        path = write(tmp_path / "x.gguf", MODELS[name])
        CpuLoader(str(path), "x", cache_dir=str(tmp_path)).prepared(silent)
    path = write(tmp_path / "x.gguf", MODELS["qwen35, drafts"])
    for drafts in (False, True):
        CpuLoader(str(path), "x", cache_dir=str(tmp_path), drafts=drafts).prepared(silent)
    assert asked == [(), ("streams",), ("drafts",)]


class Compiler:
    """Stands for `compile_all`: what it makes depends on processor, flavour and types, as the real one's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.processor, self.calls = "old", 0
        monkeypatch.setattr(compile, "compile_all", self._compile_all)
        monkeypatch.setattr(machine, "kind_of_processor", lambda: self.processor)

    def _compile_all(
        self, types: Iterable[str], flavour: str, kept: KeptCode, rare: Sequence[str], kv_type: str
    ) -> None:
        self.calls += 1
        for piece in (f"step-{kv_type}", *types):
            kept(f"{piece}-{self.processor[:3]}-{flavour}", lambda: b"machine code")

    def told_by(self, loader: CpuLoader) -> list[tuple[int, int]]:
        told: list[tuple[int, int]] = []
        loader.prepared(lambda what, done, total: told.append((done, total)))
        return told[:1] + told[-1:]  # how it began and how it ended


COMPILED = [(0, 0), (1, 1)]


def test_whatever_is_compiled_is_told(
    tiny_gguf: Path, q8_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told only where no step was kept for any processor: elsewhere a start was silent while it compiled."""
    compiler = Compiler(monkeypatch)
    loader = CpuLoader(str(tiny_gguf), "x", cache_dir=str(tmp_path))
    assert compiler.told_by(loader) == COMPILED
    assert compiler.told_by(loader) == []
    assert compiler.calls == 1, "a start that has all it needs does not read the compiler"
    assert compiler.told_by(replace(loader, flavour="generic")) == COMPILED
    assert compiler.told_by(replace(loader, kv_type="q8_0")) == COMPILED
    assert compiler.told_by(replace(loader, path=str(q8_gguf))) == COMPILED
    compiler.processor = "new"
    assert compiler.told_by(loader) == COMPILED
    compiler.processor = "newer"  # to the compiler the same
    assert compiler.told_by(loader) == []
    next((tmp_path / "cpu").glob("step-f16-new*.code")).unlink()
    assert compiler.told_by(loader) == COMPILED
    assert compiler.told_by(loader) == []
