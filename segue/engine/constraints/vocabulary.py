"""A model's vocabulary for llguidance, and masks applied to a row of logits."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property

import llguidance
import numpy as np
from numpy.typing import NDArray

from segue.engine.constraints.piece_index import PieceIndex
from segue.engine.seam import Logits, Vocab

# A byte of a bit mask → what to add to its eight logits.
_PENALTIES = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"),
    np.float32(0),
    np.float32(-np.inf),
)


class Vocabulary:
    """A model's tokens as llguidance knows them."""

    def __init__(self, vocab: Vocab, width: int) -> None:
        # As wide as a row of logits, which may exceed the vocabulary.
        self._penalties = np.full((-(-width // 8), 8), -np.inf, np.float32)
        self._spelling = spelling = _Spelling(vocab)
        self.tokenizer = llguidance.LLTokenizer(spelling, eos_token=sorted(spelling.ends) or None)
        spelling.greedy = self.tokenizer.greedy_tokenize

    @property
    def size(self) -> int:
        return len(self._spelling.tokens)

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end an answer."""
        return self._spelling.ends

    @property
    def controls(self) -> frozenset[int]:
        """Tokens that are part of no text."""
        return self._spelling.controls

    @cached_property
    def texts(self) -> dict[int, str]:
        """Of the others, if they are whole characters."""
        found: dict[int, str] = {}
        for token, piece in enumerate(self._spelling.tokens):
            if piece and token not in self.controls:
                with contextlib.suppress(UnicodeDecodeError):
                    found[token] = piece.decode()
        return found

    def piece(self, token: int) -> bytes:
        return self._spelling.tokens[token]

    @cached_property
    def pieces(self) -> PieceIndex:
        return PieceIndex(self._spelling.tokens)

    @cached_property
    def of_bytes(self) -> dict[int, int]:
        """The tokens of text that are one byte, by that byte."""
        found = ((piece, t) for t, piece in enumerate(self._spelling.tokens) if len(piece) == 1)
        return {piece[0]: token for piece, token in found if token not in self.controls}

    @cached_property
    def spells_all(self) -> bool:
        """Whether all that is in its tokens can be written byte by byte."""
        return set().union(*self._spelling.tokens) <= self.of_bytes.keys()

    def spelled(self, text: str) -> tuple[int, ...]:
        """The tokens with this text, or this name."""
        return tuple(self._by_text.get(text.encode(), ()))

    def read(self, text: str) -> Sequence[int]:
        """What the tokenizer makes of a text in which control tokens may be named."""
        return self._spelling.read(text)

    @cached_property
    def _by_text(self) -> dict[bytes, list[int]]:
        found: dict[bytes, list[int]] = defaultdict(list)
        for token, piece in enumerate(self._spelling.tokens):
            found[piece].append(token)
        return dict(found)

    def only(self, token: int) -> NDArray[np.uint8]:
        """A mask that allows one token."""
        allowed = np.zeros(len(self._penalties), np.uint8)
        allowed[token // 8] = 1 << token % 8
        return allowed

    def restrict(self, row: Logits, allowed: NDArray[np.uint8]) -> None:
        """Ban all tokens but those, ids beyond the vocabulary too. Not safe to call from several threads at once."""
        known = allowed[: len(self._penalties)]  # it comes in whole words
        np.take(_PENALTIES, known, axis=0, out=self._penalties[: known.size], mode="clip")
        row += self._penalties.ravel()[: row.size]


class _Spelling(llguidance.TokenizerWrapper):
    """The tokenizer interface of llguidance. It is called to tokenize bytes that the constraint forces."""

    is_tokenizer_wrapper = True

    def __init__(self, vocab: Vocab) -> None:  # everything that the parent's would set is set here
        self._vocab = vocab
        self.tokens = [vocab.piece(token) for token in range(vocab.size)]
        # Special tokens are never part of a text, and that must hold for all that end one.
        self.ends = ends = vocab.end_tokens
        self.special_token_ids = [t for t in range(vocab.size) if vocab.is_control(t) or t in ends]
        self.controls = frozenset(self.special_token_ids)
        self.bos_token_id = vocab.bos
        self.eos_token_id = min(ends, default=vocab.size) if vocab.eos is None else vocab.eos
        self.greedy: Callable[[str], list[int]] = lambda text: []  # set once there is a tokenizer

    def __call__(self, text: str) -> list[int]:
        wanted = text.encode()
        tokens = self._vocab.tokenize(text, False, False)
        if self._bytes(tokens) == wanted:
            return tokens
        # Some vocabularies put a space before every text: give them a line break to put it before.
        tokens = self._vocab.tokenize("\n" + text, False, False)
        for cut in range(1, min(3, len(tokens))):
            if self._bytes(tokens[cut:]) == wanted:
                return tokens[cut:]
        return self.greedy(text)

    def read(self, text: str) -> list[int]:
        return self._vocab.tokenize(text, False, True)

    def _bytes(self, tokens: Sequence[int]) -> bytes:
        return b"".join(self.tokens[token] for token in tokens)
