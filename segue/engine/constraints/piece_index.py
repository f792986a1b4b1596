"""The pieces of a vocabulary, by what they begin with and by what they hold."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.intp]

_BETWEEN = b"\xff"  # no text holds it


class PieceIndex:
    def __init__(self, pieces: Sequence[bytes]) -> None:
        """`pieces`: of all tokens."""
        order = sorted(range(len(pieces)), key=pieces.__getitem__)
        self._tokens = np.array(order, np.intp)
        self._pieces = [pieces[token] for token in order]
        self._whole = _BETWEEN.join(self._pieces)
        self._begins: list[int] = []  # of each piece in the whole
        place = 0
        for piece in self._pieces:
            self._begins.append(place)
            place += len(piece) + len(_BETWEEN)

    def beginning_with(self, text: bytes) -> Tokens:
        """The tokens whose pieces begin with this part of a text, sorted by their pieces."""
        first = bisect_left(self._pieces, text)
        return self._tokens[first : bisect_left(self._pieces, text + _BETWEEN, first)]

    def holding(self, text: bytes) -> Iterator[int]:
        """The tokens whose pieces hold this text, some of them several times."""
        place = self._whole.find(text)
        while place >= 0:
            yield int(self._tokens[bisect_right(self._begins, place) - 1])
            place = self._whole.find(text, place + 1)
