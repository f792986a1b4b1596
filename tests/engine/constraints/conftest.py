"""The vocabulary of `tagged`, and a compiler for it."""

from collections.abc import Iterator

import pytest

from segue.engine.constraints.compiler import Compiler
from segue.runners.llama.vocab import LlamaVocab
from tests.engine.constraints import tagged


@pytest.fixture(scope="session")
def vocab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaVocab]:
    vocab = LlamaVocab(tagged.write(tmp_path_factory.mktemp("vocab")))
    yield vocab
    vocab.close()


@pytest.fixture(scope="module")
def made(vocab: LlamaVocab) -> Compiler:
    return Compiler(vocab, vocab.size)
