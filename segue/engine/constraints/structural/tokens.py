"""Tokens by their ids or texts, as formats name them."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Protocol

from segue.engine.constraints.grammar import GrammarError, Range, Tokens

Named = int | str


class KnownTokens(Protocol):
    """The tokens of a model."""

    @property
    def size(self) -> int: ...

    @property
    def ends(self) -> frozenset[int]:
        """Those that end an answer."""

    def spelled(self, text: str) -> tuple[int, ...]: ...


class TokenSets:
    """Raises GrammarError for tokens that the model does not have."""

    def __init__(self, known: KnownTokens | None) -> None:
        self._known = known

    def named(self, token: Named, place: str) -> Tokens:
        """One that is asked for."""
        ids = self.ids(token)
        if ids & self._model.ends:
            raise GrammarError(
                f"the token {token!r} ends the answer; nothing can be asked to follow it"
            )
        return Tokens(_ranges(ids), is_any=False, place=place)

    def any_but(self, excluded: Iterable[int], place: str) -> Tokens:
        """Any other. One that ends the answer is none."""
        edges = [-1, *sorted(self._model.ends.union(excluded)), self._model.size]
        gaps = tuple((a + 1, b - 1) for a, b in pairwise(edges) if a + 1 < b)
        if not gaps:
            raise GrammarError("all tokens are excluded")
        return Tokens(gaps, is_any=True, place=place)

    def ids(self, token: Named) -> frozenset[int]:
        """Several may have one text."""
        found = self._model.spelled(token) if isinstance(token, str) else (token,)
        if not found or not 0 <= found[0] < self._model.size:
            raise GrammarError(f"the model has no token {token!r}")
        return frozenset(found)

    @property
    def _model(self) -> KnownTokens:
        if self._known is None:
            raise GrammarError("it speaks of tokens, and no model's are known here")
        return self._known


def _ranges(ids: Iterable[int]) -> tuple[Range, ...]:
    found: list[Range] = []
    for token in sorted(ids):
        if found and token == found[-1][1] + 1:
            found[-1] = found[-1][0], token
        else:
            found.append((token, token))
    return tuple(found)
