"""Special tokens of files that are around: their roles are those that llama.cpp's logs tell."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.models.real_files import FACTS
from tests.support.models.tiny_gguf import byte_alphabet
from tests.support.models.vocabulary_files import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    Both,
    VocabularyFile,
)

REAL: dict[str, dict[str, Any]] = tomllib.loads((FACTS / "vocabularies.toml").read_text("utf-8"))
ROLES = ("prefix", "suffix", "middle", "pad", "repo", "file_sep")  # of tokens to fill in


def vocabulary(facts: dict[str, Any]) -> VocabularyFile:
    """Without usual tokens but bytes."""
    is_spelled, named = facts["model"] == "llama", facts["named"]
    usual = [f"<0x{i:02X}>" for i in range(256)] if is_spelled else [*byte_alphabet().values()]
    own = [*dict.fromkeys((*named.values(), *facts["others"]))]
    kinds = dict.fromkeys(own, CONTROL) | dict.fromkeys(facts.get("plain", ()), NORMAL)
    if is_spelled:
        kinds[named["unknown"]] = UNKNOWN
    numbers = {f"{role}_token_id": len(usual) + own.index(text) for role, text in named.items()}
    return VocabularyFile(
        facts["model"],
        [*usual, *own],
        [BYTE if is_spelled else NORMAL] * len(usual) + [kinds[text] for text in own],
        scores=[0.0] * (len(usual) + len(own)) if is_spelled else (),
        merges=None if is_spelled else ["a b"],
        pre=facts.get("pre"),
        values={**numbers, **facts.get("says", {})},
    )


@pytest.mark.parametrize("name", REAL)
def test_roles_are_those_that_llama_cpp_found(tmp_path: Path, name: str) -> None:
    facts = REAL[name]
    file = vocabulary(facts)
    both = Both(file.write(tmp_path / "x.gguf"))
    both.check_facts()
    found, named = both.ours, facts["named"]
    assert {file.tokens[token] for token in found.end_tokens} == {*facts["ends"]}
    assert found.eos is not None
    assert file.tokens[found.eos] == named["eos"]
    assert found.bos is None or file.tokens[found.bos] == named.get("bos", file.tokens[found.bos])
    fim = {role: None if found.fim is None else getattr(found.fim, role) for role in ROLES}
    spelled = {role: file.tokens[token] for role, token in fim.items() if token is not None}
    assert spelled == facts.get("fim", {})
    assert found.adds_bos == facts.get("says", {}).get("add_bos_token", found.adds_bos)
    both.check("a b" + "".join(map(str, file.tokens[256:])))
    both.close()
