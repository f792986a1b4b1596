"""All tokenizations of a text: one token that contains it, or a token that ends with its beginning, then the rest."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from weakref import WeakKeyDictionary

from segue.engine.sampling.dry import Breakers
from segue.engine.seam import Vocab

_MOST_REMEMBERED = 256
_BETWEEN = b"\xff"  # no text holds it

Spelling = tuple[int, tuple[int, ...]]  # the first token, and those of the rest


def find_breakers(texts: Iterable[str], vocab: Vocab) -> Breakers:
    speller = _SPELLERS.get(vocab)
    if speller is None:
        speller = _SPELLERS[vocab] = _Speller(vocab)
    found: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    for text in texts:
        for token, rest in speller.spellings(text, vocab):
            found[token].add(rest)
    shared: dict[frozenset[tuple[int, ...]], frozenset[tuple[int, ...]]] = {}  # thousands are equal
    kept = ((token, frozenset(rests)) for token, rests in found.items())
    return {token: shared.setdefault(rests, rests) for token, rests in kept}


class _Speller:
    """The pieces of a vocabulary, with a cache of results: requests repeat their breakers."""

    def __init__(self, vocab: Vocab) -> None:
        pieces = [vocab.piece(token) for token in range(vocab.size)]
        self._joined = _BETWEEN.join(pieces)
        # Of each piece there, and of one that would follow.
        self._begins = [0, *accumulate(len(piece) + len(_BETWEEN) for piece in pieces)]
        backwards = sorted((piece[::-1], token) for token, piece in enumerate(pieces))
        self._backwards = [piece for piece, _ in backwards]
        self._tokens = [token for _, token in backwards]
        self._longest = max(map(len, pieces))
        self._known: dict[str, list[Spelling]] = {}

    def spellings(self, text: str, vocab: Vocab) -> list[Spelling]:
        """Called from several threads: what one has found another may forget at once."""
        found = self._known.get(text)
        if found is None:
            found = self._search(text.encode(errors="replace"), vocab)
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[text] = found
        return found

    def _search(self, text: bytes, vocab: Vocab) -> list[Spelling]:
        whole = set(self._holding(text))
        found: list[Spelling] = [(token, ()) for token in whole]
        for size in range(1, min(len(text), self._longest + 1)):
            heads = [token for token in self._ending_with(text[:size]) if token not in whole]
            rest = text[size:].decode(errors="replace")
            if heads and "\ufffd" not in rest:  # part of a character has no tokens
                tail = tuple(vocab.tokenize(rest, False, False))
                found += [(token, tail) for token in heads]
        return found

    def _holding(self, text: bytes) -> Iterator[int]:
        """The tokens that hold this text."""
        place = self._joined.find(text)
        while place >= 0:
            token = bisect_right(self._begins, place) - 1
            yield token
            place = self._joined.find(text, self._begins[token + 1])

    def _ending_with(self, text: bytes) -> list[int]:
        """The tokens that end with this part of a text."""
        end = text[::-1]
        beyond = end[:-1] + bytes((end[-1] + 1,))
        first = bisect_left(self._backwards, end)
        return self._tokens[first : bisect_left(self._backwards, beyond, first)]


_SPELLERS: WeakKeyDictionary[Vocab, _Speller] = WeakKeyDictionary()
