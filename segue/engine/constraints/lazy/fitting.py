"""What a grammar may begin with, as text: llguidance's matcher asked byte by byte, since triggers end within tokens."""

from bisect import bisect_left

import llguidance
import numpy as np
from numpy.typing import NDArray

from segue.engine.constraints.piece_index import Tokens
from segue.engine.constraints.vocabulary import Vocabulary


class LimitMet(Exception):
    """By the lexer, for another text: since then it reads little, and consumes nothing."""


class Fitting:
    def __init__(self, grammar: llguidance.LLMatcher, vocabulary: Vocabulary, sure: bytes) -> None:
        """`grammar`: that has read nothing. `sure`: a text that fits."""
        self._grammar = grammar
        self._vocabulary = vocabulary
        self._sure = sure

    def begun(self) -> llguidance.LLMatcher:
        """A matcher that has read nothing."""
        return self._grammar.deep_copy()

    def spelled(self, text: bytes) -> list[int]:
        """As tokens that are bytes."""
        return [self._vocabulary.of_bytes[byte] for byte in text]

    def num_read(self, text: bytes) -> int:
        """How many bytes of it fit, if the lexer has run into no limit."""
        return int(self.begun().validate_tokens(self.spelled(text)))

    def fits(self, text: bytes) -> bool:
        """Raises LimitMet."""
        if self.num_read(text) == len(text):
            return True
        self._check()
        return False

    def among(self, before: bytes, tokens: Tokens) -> NDArray[np.bool_]:
        """Which of these tokens, sorted by their pieces, fit behind this text. Raises LimitMet."""
        self._check()
        matcher = self.begun()
        matcher.consume_tokens(self.spelled(before))
        mask = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        if matcher.is_error():
            raise LimitMet(matcher.get_error())
        bits = np.unpackbits(mask, bitorder="little").astype(np.bool_)
        if np.count_nonzero(bits) > 1:
            return bits[tokens]
        # It may be forced: then others fit too, that are its beginnings or begin with it.
        return self._one_by_one(before, tokens)

    def _one_by_one(self, before: bytes, tokens: Tokens) -> NDArray[np.bool_]:
        found = np.zeros(len(tokens), np.bool_)
        piece_of = self._vocabulary.piece
        place = 0
        while place < len(tokens):
            piece = piece_of(tokens[place])
            num_read = self.num_read(before + piece) - len(before)
            if num_read == len(piece):
                found[place] = True
                place += 1
            else:  # nor do others that begin so
                beyond = piece[: num_read + 1] + b"\xff"
                place = bisect_left(tokens, beyond, place + 1, key=piece_of)
        return found

    def _check(self) -> None:
        if not self.begun().consume_tokens(self.spelled(self._sure)):
            raise LimitMet("the lexer has run into a limit")
