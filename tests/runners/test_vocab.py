from pathlib import Path

import pytest

from segue.errors import Incompatible
from segue.models import gguf
from segue.models.vocabulary.gguf_vocab import GgufVocab
from segue.runners.llama import c_api
from segue.runners.llama.vocab import LlamaVocab
from segue.runners.vocab import llama_obstacle, open_vocab, vocab_obstacle
from tests.support.models.vocabulary_files import VocabularyFile


@pytest.fixture
def without_llama(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> None:
        raise Incompatible("xllamacpp exports nothing")

    monkeypatch.setattr(c_api, "load", load)


def test_llama_cpp_tokenizes_where_it_can(tiny_gguf: Path) -> None:
    assert llama_obstacle() == ""
    vocab = open_vocab(tiny_gguf)
    assert isinstance(vocab, LlamaVocab)
    vocab.close()


@pytest.mark.usefixtures("without_llama")
def test_elsewhere_we_do(tiny_gguf: Path) -> None:
    assert llama_obstacle() == "xllamacpp exports nothing"
    assert vocab_obstacle(gguf.header(tiny_gguf)) is None
    assert isinstance(open_vocab(tiny_gguf), GgufVocab)


def test_what_only_llama_cpp_tokenizes_is_an_obstacle_only_there(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = VocabularyFile("t5", ["a"]).write(tmp_path / "x.gguf")
    assert vocab_obstacle(gguf.header(path)) is None
    request.getfixturevalue("without_llama")
    assert vocab_obstacle(gguf.header(path)) == (
        "only llama.cpp knows its kind of vocabulary (t5), which cannot be used here: "
        "xllamacpp exports nothing"
    )
