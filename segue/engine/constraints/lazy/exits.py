"""Where tokens lead that are more than their characters: control tokens, triggers, tokens that the grammar names, and
tokens that end where a pattern looks at the end of the output.

All others are read character by character.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from segue.engine.constraints.grammar import GrammarError, Range, Rules, Tokens
from segue.engine.constraints.lazy.machine import Machine, Where
from segue.engine.constraints.lazy.watch import Fired
from segue.engine.constraints.tokens import KnownTokens

MAX_WORK = 2_000_000  # characters of tokens that are tried in states

Exits = Mapping[int | Fired, frozenset[int]]  # the tokens that lead there


class TokenExits:
    """Raises GrammarError where too many tokens would have to be tried."""

    def __init__(
        self, machine: Machine, rules: Rules, known: KnownTokens, triggers: Mapping[int, int]
    ) -> None:
        """`triggers`: tokens that are some, and which."""
        self._machine = machine
        self._known = known
        self._triggers = triggers
        controls = known.controls - known.ends
        self._named = _named(rules) - controls - triggers.keys()
        self._apart = controls | triggers.keys() | self._named
        # Those that are just their text, if the grammar does not mean them by themselves.
        self._texts = _Texts({t: self._text(t) or "" for t in controls - triggers.keys()})
        self._work = MAX_WORK
        self._spread: dict[tuple[_Texts, int], Exits] = {}
        self._meeting: dict[tuple[_Texts, int], defaultdict[Fired, set[int]]] = {}

    def of_all(self) -> list[Exits]:
        """Of each state of the machine; it may get more by that."""
        found: list[dict[int | Fired, set[int]]] = []
        while len(found) < len(self._machine):
            self._machine.explore()
            found.append(self._from(len(found)))
        for number, exits in enumerate(found):
            for fired, tokens in self._at_ends(number).items():
                exits.setdefault(fired, set()).update(tokens)
        return [
            {to: frozenset(tokens) for to, tokens in exits.items() if tokens} for exits in found
        ]

    def _from(self, number: int) -> dict[int | Fired, set[int]]:
        machine = self._machine
        found = {to: set(tokens) for to, tokens in self._after(self._texts, number).items()}
        for token, trigger in self._triggers.items():
            fired = machine.triggered(trigger, token, self._text(token))
            if fired is not None:
                found.setdefault(fired, set()).add(token)
        meant = machine.meant(number)
        for token in self._apart - self._triggers.keys() if meant else self._named:
            is_text = token in self._named
            if not is_text and not any(low <= token <= high for low, high in meant):
                continue  # it is its text
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
                        if (fired := self._machine.fired(to, rest)) is not None:
                            found[fired].add(token)
                elif to is not None:
                    for end, tokens in self._after(longer, to).items():
                        found[end].update(tokens)
            self._spread[key] = {to: frozenset(tokens) for to, tokens in found.items() if tokens}
        return self._spread[key]

    def _at_boundary(self, to: Where) -> Where:
        """Where a token ends."""
        return (self._machine.ends(to) or to) if isinstance(to, int) else to

    # --- tokens that end where a pattern looks at the end ---------------------------------------------

    def _at_ends(self, number: int) -> Mapping[Fired, set[int]]:
        return self._met(self._ending, number) if number in self._leading else {}

    def _met(self, texts: "_Texts", number: int) -> Mapping[Fired, set[int]]:
        """Those of these texts that end where a trigger is complete then."""
        key = texts, number
        if key not in self._meeting:
            found = self._meeting[key] = defaultdict(set)
            fired = self._machine.ends(number) if texts.tokens else None
            if fired is not None:
                found[fired].update(texts.tokens)
            for c, longer in texts.longer.items():
                self._spend(1)
                to = self._machine.step(number, c)
                if isinstance(to, int) and to in self._leading:
                    for end, tokens in self._met(longer, to).items():
                        found[end] |= tokens
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
        self._work -= 1 + num_chars
        if self._work < 0:
            raise GrammarError(
                "too many tokens may end where a pattern looks at the end of the output ($) or past it"
            )


class _Texts:
    """Texts of tokens by their first character, then by the next."""

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
