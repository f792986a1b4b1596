"""Free text token by token until a word or a token comes that is a trigger: what may come, and where it leads."""

import codecs
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segue.engine.constraints.lazy.fitting import Fitting
from segue.engine.constraints.lazy.words import START, Hit, Words
from segue.engine.constraints.vocabulary import Vocabulary

_MAX_MASKS = 32  # that are kept, of some 20 KB each; in most text few come again and again


class Free(NamedTuple):
    """Where free text has come to."""

    state: int  # of the search for words
    half: bytes  # of a character whose other bytes are still to come


BEGIN = Free(START, b"")

Bits = NDArray[np.bool_]


class WordWatch:
    """What does not fit the grammar cannot come: a trigger, or what follows it in its token."""

    def __init__(
        self, words: Mapping[int, str], tokens: Mapping[int, int], vocabulary: Vocabulary
    ) -> None:
        """`words`: by the numbers of their triggers. `tokens`: those that are triggers, and which."""
        self._texts = {number: word.encode() for number, word in words.items()}
        self._tokens = tokens
        self._words = Words(self._texts)
        self._vocabulary = vocabulary
        self._usual: Bits | None = None
        self._masks: dict[Free, bytes] = {}

    def after(self, at: Free, token: int) -> Free | bytes | None:
        """After a token that ends no answer. Bytes: what a trigger in it gives to the grammar. None: it cannot come."""
        known = self._vocabulary
        piece = known.piece(token)
        if token in self._tokens:
            return piece if piece and not at.half and _half(piece) == b"" else None
        if token in known.controls:
            if at.half or token in known.ends:
                return None
            if _half(piece) != b"":  # it has no text
                return at
        elif not piece:
            return None
        read = self._words.read(at.state, piece)
        if isinstance(read, Hit):
            if _half(at.half + piece[: read.end]) is None:
                return None
            return self._texts[read.number] + piece[read.end :]
        half = _half(at.half + piece)
        return None if half is None else Free(read, half)

    def mask(self, at: Free, fitting: Fitting) -> bytes:
        """A bit for each token, the lowest first. Raises LimitMet."""
        found = self._masks.get(at)
        if found is None:
            fitting.begin()
            bits = self._within(at, fitting) if at.half else self._between(at, fitting)
            if len(self._masks) >= _MAX_MASKS:
                self._masks.clear()
            found = self._masks[at] = np.packbits(bits, bitorder="little").tobytes()
        return found

    @cached_property
    def given(self) -> Sequence[tuple[int, bytes]]:
        """The triggers that can come, and what each gives to the grammar if its token ends there. Nothing: no text."""
        found: list[tuple[int, bytes]] = []
        for number, text in self._texts.items():
            if self._words.read(START, text) == Hit(number, len(text)):
                found.append((number, text))
        for token, number in self._tokens.items():
            after = self.after(BEGIN, token)
            found.append((number, after if isinstance(after, bytes) else b""))
        return found

    # --- what may come ------------------------------------------------------------------------------

    def _comes(self, at: Free, token: int, fitting: Fitting) -> bool:
        after = self.after(at, token)
        return after is not None and (not isinstance(after, bytes) or fitting.fits(after))

    def _within(self, at: Free, fitting: Fitting) -> Bits:
        """Within a character."""
        bits = self._nothing()
        for token in self._going_on:
            bits[token] = self._comes(at, token, fitting)
        return bits

    def _between(self, at: Free, fitting: Fitting) -> Bits:
        bits = self._usually(fitting).copy()
        for rest in self._rests(at.state):
            hit = self._words.read(at.state, rest)
            before = self._texts[hit.number][: -hit.end] if isinstance(hit, Hit) else b""
            if not before:  # a word within the rest comes first, here as where nothing is begun
                continue
            tokens = self._vocabulary.pieces.beginning_with(rest)
            are_apart = self._are_apart[tokens]
            texts = tokens[~are_apart]
            if texts.size:
                bits[texts] = fitting.among(before, texts)
            for token in {*tokens[are_apart].tolist()} - self._vocabulary.ends:
                bits[token] = self._comes(at, token, fitting)
        return bits

    def _nothing(self) -> Bits:
        return np.zeros(-(-self._vocabulary.size // 32) * 32, np.bool_)

    def _usually(self, fitting: Fitting) -> Bits:
        """What may come where no word is begun. Elsewhere the same, but for tokens that complete one that is begun."""
        if self._usual is None:
            known, usual = self._vocabulary, self._nothing()
            usual[[*known.texts, *known.controls]] = True
            holding = {
                token for text in self._texts.values() for token in known.pieces.holding(text)
            }
            for token in (holding | self._halves | self._tokens.keys()) - known.ends:
                usual[token] = self._comes(BEGIN, token, fitting)
            self._usual = usual
        return self._usual

    def _rests(self, state: int) -> Iterator[bytes]:
        """What completes a word that is begun, if a token begins with it."""
        words, pieces = self._words, self._vocabulary.pieces
        waiting = [(begun, b"") for begun in words.begun(state)]
        while waiting:
            at, rest = waiting.pop()
            for byte, to in words.onward(at).items():
                longer = rest + bytes((byte,))
                if not pieces.beginning_with(longer).size:
                    continue
                if words.is_complete(to):
                    yield longer
                else:
                    waiting.append((to, longer))

    @cached_property
    def _are_apart(self) -> Bits:
        """Whether each token is no text for the grammar where it stands."""
        found = self._nothing()
        found[[*self._vocabulary.controls, *self._tokens]] = True
        return found

    @cached_property
    def _halves(self) -> frozenset[int]:
        """Tokens of text that begin or end within a character."""
        known = self._vocabulary
        return frozenset(
            t for t in range(known.size) if t not in known.texts and t not in known.controls
        )

    @cached_property
    def _going_on(self) -> frozenset[int]:
        """Those that begin within a character."""
        return frozenset(
            t for t in self._halves if 0x80 <= (self._vocabulary.piece(t) or b"\0")[0] < 0xC0
        )


def _half(data: bytes) -> bytes | None:
    """The bytes of a last character that is not whole. None if it is no text."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(data)
    except UnicodeDecodeError:
        return None
    held = decoder.getstate()[0]
    # Python's decoder waits for the rest of a surrogate, though no character begins with these bytes.
    return None if held[:1] == b"\xed" and held[1:] >= b"\xa0" else held
