"""llama.cpp's own grammar sampler, called through its C API: the independent reference for what a grammar allows."""

import ctypes
from collections.abc import Sequence
from ctypes import c_char_p, c_int32

import numpy as np

from segue.runners.llama.vocab import LlamaVocab
from tests.support.llama_samplers import Reference, Row


class LlamaGrammar(Reference):
    """Use as a context. A token that the grammar has no place for must not be accepted: it would end the process."""

    def __init__(self, vocab: LlamaVocab, text: str) -> None:
        super().__init__("grammar", vocab._vocab, text.encode(), b"root")
        self._size = vocab.size

    def allowed(self) -> frozenset[int]:
        row = Row(np.zeros(self._size, np.float32))
        self.apply(row)
        return frozenset(np.flatnonzero(np.isfinite(row.entries["logit"])).tolist())


class LlamaLazyGrammar(LlamaGrammar):
    """One that holds from a trigger on: patterns as they stand, and tokens."""

    def __init__(
        self, vocab: LlamaVocab, text: str, patterns: Sequence[str], tokens: Sequence[int]
    ) -> None:
        written = (c_char_p * len(patterns))(*(pattern.encode() for pattern in patterns))
        ids = (c_int32 * len(tokens))(*tokens)
        made = (vocab._vocab, text.encode(), b"root")
        Reference.__init__(
            self, "grammar_lazy_patterns", *made, written, len(patterns), ids, len(tokens)
        )
        self._kept: ctypes.Array[c_char_p] = written
        self._size = vocab.size
