"""Tokens by merges, as GPT-2 has them (`gpt2`). What has no token at all is left out, as llama.cpp does."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from segue.models.vocabulary.byte_spelling import MARK, of_byte, spell
from segue.models.vocabulary.merging import merge
from segue.models.vocabulary.safe_cuts import SafeCuts
from segue.models.vocabulary.word_cache import WordCache
from segue.models.vocabulary.words.pre_tokenizers import PreTokenizer
from segue.models.vocabulary.words.splitting import split


class BytePair:
    def __init__(self, ids: Mapping[str, int], merges: Sequence[str], pre: PreTokenizer) -> None:
        """`merges`: both parts with a space between them, in order."""
        self._ids, self._pre = ids, pre
        # The first of equals counts.
        self._ranks: dict[str, float] = dict(
            zip(reversed(merges), range(len(merges) - 1, -1, -1), strict=True)
        )
        self._cuts = None if pre.is_byte_level else SafeCuts(map(_joined, merges))
        self._known = WordCache(self._word)

    def __call__(self, text: str) -> list[int]:
        if not self._pre.is_byte_level:
            text = text.replace(" ", MARK)
        words: Iterable[str] = split(text, self._pre.rules)
        if self._pre.marks_words:
            words = _marked(words)
        known = self._known
        return [token for word in words for token in known(word)]

    def _word(self, word: str) -> list[int]:
        spelled = spell(word) if self._pre.is_byte_level else word
        is_newlines = self._pre.keeps_newlines and not word.strip("\n")
        if (self._pre.ignores_merges or is_newlines) and spelled in self._ids:
            return [self._ids[spelled]]
        parts = [spelled] if self._cuts is None else self._cuts.part(spelled)
        return [
            token
            for part in parts
            for symbol in merge(part, self._ranks, " ")
            for token in self._tokens(symbol)
        ]

    def _tokens(self, symbol: str) -> Sequence[int]:
        token = self._ids.get(symbol)
        return (token,) if token is not None else [*self._bytes(symbol)]

    def _bytes(self, symbol: str) -> Iterator[int]:
        for byte in symbol.encode(errors="surrogateescape"):
            # In GPT-2's alphabet bytes outside ASCII have two: neither is a token.
            one = bytes([byte]).decode(errors="surrogateescape")
            token = self._ids.get(one if self._pre.is_byte_level else of_byte(byte))
            if token is not None:
                yield token


def _joined(merged: str) -> str:
    left, _, right = merged[1:].partition(" ")
    return merged[:1] + left + right


def _marked(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if not word.strip("\n"):
            yield word
            continue
        for part in word.removeprefix(MARK).split(MARK):
            yield MARK + part
