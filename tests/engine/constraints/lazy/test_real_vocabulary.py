"""Random lazy grammars through the guide with the embedded model's vocabulary, along texts as it tokenizes them."""

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from segue.engine.constraints.compiler import Compiler
from segue.engine.constraints.guide import Guide
from segue.errors import InvalidField
from segue.models.vocabulary.gguf_vocab import GgufVocab
from tests.engine.constraints.lazy.oracle import Lazy, Read
from tests.engine.constraints.lazy.random_triggers import RandomLazy, random_lazy

PIECES = [
    "a",
    "b",
    "c",
    "x",
    "ab",
    "abc",
    " a",
    "<call>",
    "<",
    "\n",
    " the ",
    "cx",
    "abab",
    "xb",
    "é",
    "cab",
    "ab c",
]


@pytest.fixture(scope="module")
def vocab(embedded_gguf: Path) -> Iterator[GgufVocab]:
    found = GgufVocab(embedded_gguf)
    yield found
    found.close()


@pytest.fixture(scope="module")
def compiler(vocab: GgufVocab) -> Compiler:
    return Compiler(vocab, vocab.size)


class Reader:
    """Reads texts with a guide and with the matcher, and compares what they allow."""

    def __init__(self, vocab: GgufVocab, compiler: Compiler, own: RandomLazy) -> None:
        """Raises InvalidField."""
        self._vocab = vocab
        self._grammar = compiler.compile(own.constraint)
        self._oracle: Lazy = own.matcher(frozenset())
        self.num_read = self.num_refused = self.num_forced = 0

    def read(self, rng: random.Random, text: str) -> None:
        guide, read = Guide(self._grammar), Read()
        wanted = self._vocab.tokenize(text, False, False)
        others = [self._vocab.tokenize(piece, False, False)[0] for piece in PIECES]
        while wanted:
            token = wanted.pop(0)
            if guide.forced:
                token = guide.forced[0]
                self.num_forced += 1
            else:
                row = np.zeros(self._vocab.size, np.float32)
                guide.apply(row)
                for other in (token, *others):
                    assert np.isfinite(row[other]) == (self._after(read, other) is not None), text
            after = self._after(read, token)
            self.num_refused += after is None
            if after is None:
                return
            read = after
            self.num_read += 1
            if guide.accept(token):
                assert read.stacks == frozenset({()})
                return
            assert guide.is_whole == (read.stacks is None or () in read.stacks)

    def _after(self, read: Read, token: int) -> Read | None:
        """Of a token that is whole characters."""
        text = self._vocab.piece(token).decode(errors="replace")
        return self._oracle.after(read, token, text)


@pytest.mark.model
def test_what_the_guide_allows(vocab: GgufVocab, compiler: Compiler) -> None:
    rng = random.Random(0)
    num_read = num_refused = num_forced = 0
    for _ in range(50):
        try:
            reader = Reader(vocab, compiler, random_lazy(rng, vocab, has_tokens=False))
        except InvalidField:
            continue
        for _ in range(6):
            reader.read(rng, "".join(rng.choices(PIECES, k=rng.randint(1, 9))))
        num_read += reader.num_read
        num_refused += reader.num_refused
        num_forced += reader.num_forced
    assert num_read > 500
    assert num_refused > 10
    assert num_forced > 10
