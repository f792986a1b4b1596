from pathlib import Path

import pytest

from segue import config
from segue.errors import Incompatible
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
