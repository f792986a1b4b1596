"""Gaps filled by tiny models with the tokens and metadata of the real ones: what is computed is their own layout."""

from pathlib import Path

import pytest

from segue import LLM
from segue.runners.llama.vocab import LlamaVocab
from tests.support.models.tiny_coders import CODERS

pytest.importorskip("llvmlite", reason="without it there are no kernels of ours")

BEFORE, AFTER = "x = f(1)\ny", "\nz = g(2)\n"


@pytest.mark.parametrize("name", CODERS)
def test_the_markers_are_found(tmp_path: Path, name: str) -> None:
    coder = CODERS[name]
    vocab = LlamaVocab(coder.write(tmp_path / "x.gguf"))
    assert vocab.fim is not None
    found = vocab.fim.prefix, vocab.fim.suffix, vocab.fim.middle
    assert found == tuple(coder.marker(role) for role in ("prefix", "suffix", "middle"))
    assert vocab.adds_bos == coder.adds_bos
    vocab.close()


@pytest.mark.parametrize("name", CODERS)
def test_an_infill_is_the_completion_of_the_models_own_layout(tmp_path: Path, name: str) -> None:
    coder = CODERS[name]
    with LLM(coder.write(tmp_path / "x.gguf"), runner="cpu", threads=1) as llm:
        filled = llm.infill(BEFORE, AFTER, max_tokens=8, temperature=0, logprobs=2)
        start = " " if coder.has_space_prefix else ""  # which the tokenizer puts before a text
        pre, suf, mid = ([coder.marker(role)] for role in ("prefix", "suffix", "middle"))
        prompt = [*coder.bos, *pre, *coder.ids(start + BEFORE), *suf, *coder.ids(AFTER), *mid]
        completed = llm.complete(prompt, max_tokens=8, temperature=0, logprobs=2)
        assert llm.info.has_fim
        assert llm.info.runner == "cpu"
    assert filled.usage.prompt_tokens == len(prompt)
    assert filled.tokens == completed.tokens
    assert filled.choices[0].scores == completed.choices[0].scores
