from dataclasses import replace
from pathlib import Path

import pytest

from segue.models.inventory import model_facts
from tests.support.tiny_coders import CODERS
from tests.support.tiny_models import MODELS, write


@pytest.mark.parametrize("name", CODERS)
def test_files_with_tokens_for_gaps_are_known_by_them(tmp_path: Path, name: str) -> None:
    assert model_facts(CODERS[name].write(tmp_path / "x.gguf")).has_fim


def test_the_keys_of_a_file_name_such_tokens_however_they_are_spelled(tmp_path: Path) -> None:
    named = next(coder for coder in CODERS.values() if coder.keys and not coder.is_sentencepiece)
    other = {"prefix": "[HEAVY]", "suffix": "[MASK]", "middle": "[SEP]"}
    assert model_facts(replace(named, markers=other).write(tmp_path / "x.gguf")).has_fim


def test_other_files_have_none(tmp_path: Path) -> None:
    assert not model_facts(write(tmp_path / "x.gguf", MODELS["llama"])).has_fim
