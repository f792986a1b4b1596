"""Tokens by their ids or texts, as grammars and formats name them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Protocol

from segue.engine.constraints.grammar import GrammarError, Range, Ref, Rules, Tokens, either

Named = int | str
MAX_SHARES = 20_000  # of tokens among the sets that they are in; a hundred sets of any but one token have half of that


class KnownTokens(Protocol):
    """The tokens of a model."""

    @property
    def size(self) -> int: ...

    @property
    def ends(self) -> frozenset[int]:
        """Those that end an answer."""

    @property
    def controls(self) -> frozenset[int]:
        """Those that are part of no text, the ends among them."""

    @property
    def texts(self) -> Mapping[int, str]:
        """Of all others that are whole characters."""

    @property
    def spells_all(self) -> bool:
        """Whether all that is in them can be written byte by byte."""

    def piece(self, token: int) -> bytes: ...

    def spelled(self, text: str) -> tuple[int, ...]:
        """Those with this text, or this name."""

    def read(self, text: str) -> Sequence[int]:
        """What the tokenizer makes of a text in which control tokens may be named."""


class TokenSets:
    """Raises GrammarError for tokens that the model does not have."""

    def __init__(self, known: KnownTokens | None) -> None:
        self._known = known

    def named(self, token: Named, place: str) -> Tokens:
        """One that is asked for. Where it may come it is never text."""
        return self._asked(self.ids(token), f"{token!r}", place)

    def exact(self, token: int, place: str) -> Tokens:
        """One that is asked for by a grammar that must not lose a text by it."""
        found = self._asked(self.ids(token), f"{token}", place)
        return Tokens(found.ids, is_any=False, texts=self._texts(token), place=place)

    def one(self, text: str) -> int:
        """The token that a text is, as the tokenizer reads it."""
        found = self.known.read(text)
        if len(found) != 1:
            raise GrammarError(f"{text} is no token of the model: it is read as {len(found)}")
        return found[0]

    def any_but(self, excluded: int | Iterable[int], place: str) -> Tokens:
        """Any other. One that ends the answer is none."""
        if isinstance(excluded, int):
            excluded = self.ids(excluded)
        edges = [-1, *sorted(self.known.ends.union(excluded)), self.known.size]
        gaps = tuple((a + 1, b - 1) for a, b in pairwise(edges) if a + 1 < b)
        if not gaps:
            raise GrammarError("all tokens are excluded")
        return Tokens(gaps, is_any=True, place=place)

    def ids(self, token: Named) -> frozenset[int]:
        """Several may have one text."""
        found = self.known.spelled(token) if isinstance(token, str) else (token,)
        if not found or not 0 <= found[0] < self.known.size:
            raise GrammarError(f"the model has no token {token!r}")
        return frozenset(found)

    @property
    def known(self) -> KnownTokens:
        if self._known is None:
            raise GrammarError("it speaks of tokens, and no model's are known here")
        return self._known

    def _asked(self, ids: frozenset[int], name: str, place: str) -> Tokens:
        if ids & self.known.ends:
            raise GrammarError(
                f"the token {name} ends the answer; nothing can be asked to follow it"
            )
        return Tokens(ranges(ids), is_any=False, place=place)

    def _texts(self, token: int) -> tuple[str, ...]:
        if token in self.known.controls:
            return ()
        return (self.known.piece(token).decode(errors="replace"),)


def ranges(ids: Iterable[int]) -> tuple[Range, ...]:
    found: list[Range] = []
    for token in sorted(ids):
        if found and token == found[-1][1] + 1:
            found[-1] = found[-1][0], token
        else:
            found.append((token, token))
    return tuple(found)


def disjoint(rules: Rules) -> Rules:
    """The same rules, in which no two sets of tokens share some: the parser would take each token for one of them.

    A set that is not any of many must be one token.
    """
    sets = {name: body for name, body in rules.items() if isinstance(body, Tokens)}
    parts = _parts(sets)
    if all(len(names) == 1 for names in parts):
        return rules
    found = dict(rules)
    shares: dict[str, list[Ref]] = defaultdict(list)
    for names, ids in parts.items():
        alone = next((sets[name] for name in names if not sets[name].is_any), None)
        own = "&".join(names) + " alone"
        place = sets[names[0]].place
        found[own] = Tokens(tuple(ids), is_any=True, place=place) if alone is None else alone
        for name in names:
            shares[name].append(Ref(own))
    return found | {name: either(*refs) for name, refs in shares.items()}


def _parts(sets: dict[str, Tokens]) -> dict[tuple[str, ...], list[Range]]:
    """The tokens by the sets that they are in."""
    begins: dict[int, list[str]] = defaultdict(list)
    ends: dict[int, list[str]] = defaultdict(list)
    for name, body in sets.items():
        for low, high in body.ids:
            begins[low].append(name)
            ends[high + 1].append(name)
    found: dict[tuple[str, ...], list[Range]] = defaultdict(list)
    current: dict[str, None] = {}
    left = MAX_SHARES + sum(len(body.ids) for body in sets.values())
    for low, high in pairwise(sorted(begins.keys() | ends.keys())):
        for name in ends[low]:
            del current[name]
        current.update(dict.fromkeys(begins[low]))
        left -= len(current)
        if left < 0:
            raise GrammarError(
                "too many sets of tokens share some; name fewer different tokens after !"
            )
        if current:
            found[tuple(sorted(current))].append((low, high - 1))
    return dict(found)
