"""Where tokens lead that are more than their characters: control tokens, triggers, tokens that the grammar names, and
tokens that end where a pattern looks at the end of the output.

All others are read character by character.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from segue.engine.constraints.automaton import Work
from segue.engine.constraints.grammar import Range, Rules, Tokens
from segue.engine.constraints.lazy.machine import Machine, Where
from segue.engine.constraints.lazy.watch import Fired
from segue.engine.constraints.tokens import KnownTokens

_STEP = 3  # of the steps that are allowed, for a character of a token that is tried in a state

Exits = Mapping[int | Fired, frozenset[int]]  # the tokens that lead there
_NONE: frozenset[int] = frozenset()
_NOTHING: Exits = {}


class TokenExits:
    """Raises Undecided where too many tokens would have to be tried."""

    def __init__(
        self,
        machine: Machine,
        rules: Rules,
        known: KnownTokens,
        triggers: Mapping[int, int],
        work: Work,
    ) -> None:
        """`triggers`: tokens that are some, and which."""
        self._machine = machine
        self._work = work
        self._known = known
        self._triggers = triggers
        controls = known.controls - known.ends
        self._named = _named(rules) - controls - triggers.keys()
        self._apart = controls | triggers.keys() | self._named
        # Those that are just their text, if the grammar does not mean them by themselves.
        self._texts = _Texts({t: self._text(t) or "" for t in controls - triggers.keys()})
        self._sorted = sorted(self._apart - self._triggers.keys())
        self._spread: dict[tuple[_Texts, int], Exits] = {}
        self._meeting: dict[tuple[_Texts, int], Exits] = {}

    def of_all(self) -> list[Exits]:
        """Of each state of the machine; it may get more by that."""
        found: list[dict[int | Fired, set[int]]] = []
        while len(found) < len(self._machine):
            self._machine.explore()
            found.append(self._from(len(found)))
        shared: dict[frozenset[int], frozenset[int]] = {}  # many states have the same
        whole: list[Exits] = []
        for number, exits in enumerate(found):
            own: dict[int | Fired, frozenset[int]] = dict(self._at_ends(number))
            for to, tokens in exits.items():
                own[to] = own.get(to, _NONE) | tokens
            whole.append({to: shared.setdefault(each, each) for to, each in own.items() if each})
        return whole

    def _from(self, number: int) -> dict[int | Fired, set[int]]:
        machine = self._machine
        found = {to: set(tokens) for to, tokens in self._after(self._texts, number).items()}
        for token, trigger in self._triggers.items():
            fired = machine.triggered(trigger, token, self._text(token))
            if fired is not None:
                found.setdefault(fired, set()).add(token)
        for token in sorted(self._named.union(self._among(machine.meant(number)))):
            is_text = token in self._named
            text = self._text(token)
            self._spend(len(text or ""))
            to = self._at_boundary(machine.after_token(number, token, text))
            if is_text and to == machine.after(number, text or ""):
                continue  # it is read character by character
            for tokens in found.values():
                tokens.discard(token)
            if to is not None:
                found.setdefault(to, set()).add(token)
        return found

    def _among(self, meant: Iterable[Range]) -> Iterator[int]:
        """Those that the grammar may mean: the others are their text."""
        for low, high in meant:
            self._work.spend(1)
            yield from self._sorted[
                bisect_left(self._sorted, low) : bisect_right(self._sorted, high)
            ]

    def _after(self, texts: "_Texts", number: int) -> Exits:
        """Where these texts lead from there."""
        key = texts, number
        if key not in self._spread:
            found: dict[int | Fired, set[int]] = defaultdict(set)
            if (here := self._at_boundary(number)) is not None:
                found[here].update(texts.tokens)
            for c, longer in texts.longer.items():
                self._spend(1)
                to = self._machine.step(number, c)
                if isinstance(to, Fired):
                    for token, rest in longer.all():
                        self._spend(len(rest))
                        if (fired := self._machine.fired(to, rest)) is not None:
                            found[fired].add(token)
                elif to is not None:
                    for end, tokens in self._after(longer, to).items():
                        self._work.spend(len(tokens) // 2)
                        found[end].update(tokens)
            self._spread[key] = {to: frozenset(tokens) for to, tokens in found.items() if tokens}
        return self._spread[key]

    def _at_boundary(self, to: Where) -> Where:
        """Where a token ends."""
        return (self._machine.ends(to) or to) if isinstance(to, int) else to

    # --- tokens that end where a pattern looks at the end ---------------------------------------------

    def _at_ends(self, number: int) -> Exits:
        return self._met(self._ending, number) if number in self._leading else _NOTHING

    def _met(self, texts: "_Texts", number: int) -> Exits:
        """Those of these texts that end where a trigger is complete then."""
        key = texts, number
        if key not in self._meeting:
            found: dict[int | Fired, list[frozenset[int]]] = defaultdict(list)
            fired = self._machine.ends(number) if texts.tokens else None
            if fired is not None:
                found[fired].append(frozenset(texts.tokens))
            for c, longer in texts.longer.items():
                self._spend(1)
                to = self._machine.step(number, c)
                if isinstance(to, int) and to in self._leading:
                    for end, tokens in self._met(longer, to).items():
                        self._work.spend(len(tokens) // 2)
                        found[end].append(tokens)
            whole = {
                end: each[0].union(*each[1:]) if each[1:] else each[0]
                for end, each in found.items()
            }
            self._meeting[key] = whole or _NOTHING
        return self._meeting[key]

    @cached_property
    def _ends(self) -> frozenset[int]:
        """States where a trigger is complete if a token ends there."""
        every = range(len(self._machine))
        return frozenset(number for number in every if self._machine.ends(number) is not None)

    @cached_property
    def _leading(self) -> frozenset[int]:
        """Those that lead to one."""
        arcs = [(n, arc.to) for n in range(len(self._machine)) for arc in self._machine.arcs(n)]
        found: set[int] = set()
        new = set(self._ends)
        while new:
            found |= new
            new = {number for number, to in arcs if to in new} - found
        return frozenset(found)

    @cached_property
    def _ending(self) -> "_Texts":
        """Tokens of text whose last character may lead to one."""
        machine = self._machine
        arcs = (arc for number in range(len(machine)) for arc in machine.arcs(number))
        ranges = [arc.ranges for arc in arcs if arc.to in self._ends]
        texts, apart = self._known.texts, self._apart
        last = {c for c in {text[-1] for text in texts.values()} if _among(ranges, c)}
        return _Texts({t: text for t, text in texts.items() if text[-1] in last and t not in apart})

    def _text(self, token: int) -> str | None:
        """None: it has none, or ends within a character."""
        try:
            return self._known.piece(token).decode()
        except UnicodeDecodeError:
            return None

    def _spend(self, num_chars: int) -> None:
        self._work.spend(_STEP * (1 + num_chars))


class _Texts:
    """Texts of tokens by their first character, then by the next."""

    __slots__ = ("longer", "tokens")

    def __init__(self, texts: Mapping[int, str]) -> None:
        self.tokens = [token for token, text in texts.items() if not text]
        by_first: dict[str, dict[int, str]] = defaultdict(dict)
        for token, text in texts.items():
            if text:
                by_first[text[0]][token] = text[1:]
        self.longer = {c: _Texts(rest) for c, rest in by_first.items()}

    def all(self) -> Iterator[tuple[int, str]]:
        """Each with its text."""
        yield from ((token, "") for token in self.tokens)
        for c, longer in self.longer.items():
            yield from ((token, c + rest) for token, rest in longer.all())


def _named(rules: Rules) -> set[int]:
    """Tokens that the grammar asks for."""
    sets = (body for body in rules.values() if isinstance(body, Tokens) and not body.is_any)
    return {t for body in sets for low, high in body.ids for t in range(low, high + 1)}


def _among(several: Iterable[Iterable[Range]], c: str) -> bool:
    return any(low <= ord(c) <= high for ranges in several for low, high in ranges)
