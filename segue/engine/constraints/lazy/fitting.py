"""What a grammar may begin with, as text: llguidance's matcher asked byte by byte, since triggers end within tokens."""

import time
from bisect import bisect_left
from typing import NamedTuple

import llguidance
import numpy as np
from numpy.typing import NDArray

from segue.engine.constraints.piece_index import Tokens
from segue.engine.constraints.threads.fair_queue import Lexer
from segue.engine.constraints.token_reading import read_as_far
from segue.engine.constraints.vocabulary import Vocabulary

_UNFIT = "doesn't satisfy the grammar"  # llguidance's words
_MAX_S = 10.0  # that a slow lexer may read for one mask, or while the grammar is compiled


class LimitMet(Exception):
    """By the lexer, for another text: since then it reads little, and consumes nothing. Or by the time for a mask."""


class _Behind(NamedTuple):
    """What may come behind a text."""

    before: bytes
    matcher: llguidance.LLMatcher  # that has read it
    bits: NDArray[np.bool_]


class Fitting:
    """All of it may raise LimitMet."""

    def __init__(
        self,
        grammar: llguidance.LLMatcher,
        vocabulary: Vocabulary,
        sure: bytes,
        lexer: Lexer,
    ) -> None:
        """`grammar`: that has read nothing. `sure`: a text that fits. `lexer`: the grammar's."""
        self._grammar = grammar
        self._vocabulary = vocabulary
        self._sure = sure
        self._lexer = lexer
        self.begin()

    def begin(self) -> None:
        """Another mask: it may take as long as any."""
        self._left_s = _MAX_S
        self._last: _Behind | None = None

    def begun(self) -> llguidance.LLMatcher:
        """A matcher that has read nothing."""
        return self._grammar.deep_copy()

    def spelled(self, text: bytes) -> list[int]:
        """As tokens that are bytes."""
        return [self._vocabulary.of_bytes[byte] for byte in text]

    def num_read(self, text: bytes) -> int:
        """How many bytes of it fit, if the lexer has run into no limit."""
        return self._read(self.begun(), text)

    def fits(self, text: bytes) -> bool:
        if self.num_read(text) == len(text):
            return True
        self._check()
        return False

    def can_begin(self, text: bytes) -> bool:
        """The same of a lexer that nobody else has used: then it is a limit that this text alone runs into."""
        matcher = self.begun()
        num_read = self._read(matcher, text)
        if matcher.is_error() and _UNFIT not in (error := matcher.get_error()):
            raise LimitMet(error)
        return num_read == len(text)

    def among(self, before: bytes, tokens: Tokens) -> NDArray[np.bool_]:
        """Which of these tokens, sorted by their pieces, fit behind this text."""
        if self._last is None or self._last.before != before:
            self._last = self._behind(before)
        if np.count_nonzero(self._last.bits) > 1:
            return self._last.bits[tokens]
        # It may be forced: then others fit too, that are its beginnings or begin with it.
        return self._one_by_one(self._last.matcher, tokens)

    def _behind(self, before: bytes) -> _Behind:
        self._check()
        matcher = self.begun()
        self._read(matcher, before)
        mask = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        if matcher.is_error():
            raise LimitMet(matcher.get_error())
        return _Behind(before, matcher, np.unpackbits(mask, bitorder="little").astype(np.bool_))

    def _one_by_one(self, matcher: llguidance.LLMatcher, tokens: Tokens) -> NDArray[np.bool_]:
        found = np.zeros(len(tokens), np.bool_)
        piece_of = self._vocabulary.piece
        place = 0
        while place < len(tokens):
            piece = piece_of(tokens[place])
            num_read = self._read(matcher.deep_copy(), piece)
            if num_read == len(piece):
                found[place] = True
                place += 1
            else:  # nor do others that begin so
                beyond = piece[: num_read + 1] + b"\xff"
                place = bisect_left(tokens, beyond, place + 1, key=piece_of)
        return found

    def _read(self, matcher: llguidance.LLMatcher, text: bytes) -> int:
        """How many bytes of it fit."""
        if self._left_s < 0:
            raise LimitMet("it takes too long to read what triggers give to it")
        began_s = time.monotonic()
        tokenizer = self._vocabulary.tokenizer
        num_read = read_as_far(matcher, self.spelled(text), self._lexer, tokenizer)
        if self._lexer.is_slow:
            self._left_s -= time.monotonic() - began_s
        return num_read

    def _check(self) -> None:
        sure = self._sure[:1]
        if self.num_read(sure) < len(sure):
            raise LimitMet("the lexer has run into a limit")
