import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from segue.distributed.hf_vocab import HfVocab
from segue.errors import Incompatible
from segue.runners.llama.vocab import LlamaVocab
from tests.support.models.tiny_gguf import END, FIM, pieces
from tests.support.models.tiny_hf import tokenizer_json

tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")

TEXTS = ["The other one: thé then 123", f"a {END} b", "  x\n\n\ty", "naïve 😀 中文", ""]


@dataclass
class Tokenizer:
    """What is used of transformers' tokenizers."""

    backend_tokenizer: Any
    bos_token_id: int | None
    eos_token_id: int | None


def made(about: dict[str, Any], end: int | None) -> HfVocab:
    backend = tokenizers.Tokenizer.from_str(json.dumps(about))
    return HfVocab(Tokenizer(backend, end, end), [])


@pytest.fixture(scope="module")
def vocab() -> HfVocab:
    return made(tokenizer_json([END, *FIM.values()]), len(pieces()))


def test_it_is_the_vocabulary_llamacpp_reads(vocab: HfVocab, tiny_gguf: Path) -> None:
    other = LlamaVocab(tiny_gguf)
    assert (vocab.size, vocab.eos, vocab.adds_bos) == (other.size, other.eos, other.adds_bos)
    assert vocab.fim == other.fim
    for token in range(vocab.size):
        assert vocab.piece(token) == other.piece(token)
        assert vocab.is_control(token) == other.is_control(token)
    for text in TEXTS:
        for parse_special in (False, True):
            tokens = vocab.tokenize(text, True, parse_special)
            assert tokens == other.tokenize(text, True, parse_special)
            assert b"".join(map(vocab.piece, tokens)) == text.encode()
    other.close()


def test_half_a_character_is_no_crash(vocab: HfVocab) -> None:
    assert vocab.tokenize("\ud800", True, True) == vocab.tokenize("?", True, True)


def test_ids_beyond_the_vocabulary_have_no_bytes(vocab: HfVocab) -> None:
    assert vocab.piece(vocab.size) == b""


def test_bytes_of_sentencepiece() -> None:
    spellings = ["<unk>", "<0x0A>", "▁the", "é", "<0xyz>"]
    vocab = made(
        {
            "version": "1.0",
            "model": {
                "type": "BPE",
                "vocab": {text: index for index, text in enumerate(spellings)},
                "merges": [],
                "byte_fallback": True,
            },
            "decoder": {
                "type": "Sequence",
                "decoders": [
                    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                    {"type": "ByteFallback"},
                    {"type": "Fuse"},
                ],
            },
        },
        None,
    )
    read = [vocab.piece(token) for token in range(1, 5)]
    assert read == [b"\n", b" the", "é".encode(), b"<0xyz>"]


def test_a_tokenizer_that_is_not_understood_is_refused() -> None:
    about = {"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}
    with pytest.raises(Incompatible, match="not understood"):
        made(about, None)
    with pytest.raises(Incompatible):
        HfVocab(object(), [])
