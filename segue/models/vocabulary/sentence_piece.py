"""Tokens by scores, as SentencePiece has them (`llama`). A character without a token is spelled byte by byte."""

from collections.abc import Mapping, Sequence

from segue.errors import Unsupported
from segue.models.vocabulary.byte_spelling import MARK, of_byte
from segue.models.vocabulary.merging import merge
from segue.models.vocabulary.safe_cuts import SafeCuts
from segue.models.vocabulary.word_cache import WordCache


class SentencePiece:
    def __init__(self, ids: Mapping[str, int], scores: Sequence[float]) -> None:
        self._ids = ids
        self._orders = {text: -scores[token] for text, token in ids.items()}  # the best first
        self._cuts = SafeCuts(ids)
        self._known = WordCache(self._word)

    def __call__(self, text: str) -> list[int]:
        """Of a text whose characters can all be spelled: see `spelling.py`."""
        parts = self._cuts.part(text.replace(" ", MARK))
        known = self._known
        return [token for part in parts for token in known(part)]

    def _word(self, word: str) -> list[int]:
        symbols = merge(word, self._orders, "")
        return [token for symbol in symbols for token in self._tokens(symbol)]

    def _tokens(self, symbol: str) -> Sequence[int]:
        token = self._ids.get(symbol)
        if token is not None:
            return (token,)
        return [self._byte(byte) for byte in symbol.encode()]

    def _byte(self, byte: int) -> int:
        token = self._ids.get(of_byte(byte))
        if token is None:
            token = self._ids.get(bytes([byte]).decode(errors="surrogateescape"))
        if token is None:
            raise Unsupported(f"the model's vocabulary has no tokens for the byte {byte:#04x}")
        return token
