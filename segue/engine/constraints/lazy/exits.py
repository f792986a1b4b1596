"""Where tokens lead that are more than their characters: control tokens, triggers, tokens that the grammar names, and
tokens that end where a pattern looks at the end of the output.

All others are read character by character.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
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
        self._apart = sorted((known.controls - known.ends) | triggers.keys() | _named(rules))
        self._work = MAX_WORK

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
        found: dict[int | Fired, set[int]] = defaultdict(set)
        for token in self._apart:
            text = self._text(token)
            self._spend(len(text or ""))
            to: int | Fired | None
            if token in self._triggers:
                to = self._machine.triggered(self._triggers[token], token, text)
            else:
                to = self._machine.after_token(number, token, text)
                if isinstance(to, int):
                    to = self._machine.ends(to) or to
                if token not in self._known.controls and text is not None:
                    to = None if to == self._machine.after(number, text) else to
            if to is not None:
                found[to].add(token)
        return found

    # --- tokens that end where a pattern looks at the end ---------------------------------------------

    def _at_ends(self, number: int) -> dict[Fired, set[int]]:
        found: dict[Fired, set[int]] = defaultdict(set)
        for token in self._ending if number in self._leading else ():
            fired = self._at_end(number, self._known.texts[token])
            if fired is not None:
                found[fired].add(token)
        return found

    def _at_end(self, number: int, text: str) -> Fired | None:
        at: Where = number
        for c in text:
            self._spend(1)
            at = self._machine.step(at, c) if isinstance(at, int) else None
            if at not in self._leading:
                return None
        return self._machine.ends(at) if isinstance(at, int) else None

    @cached_property
    def _ends(self) -> frozenset[int]:
        """States where a trigger is complete if a token ends there."""
        every = range(len(self._machine))
        return frozenset(number for number in every if self._machine.ends(number) is not None)

    @cached_property
    def _leading(self) -> frozenset[Where]:
        """Those that lead to one."""
        arcs = [(n, arc.to) for n in range(len(self._machine)) for arc in self._machine.arcs(n)]
        found: set[int] = set()
        new = set(self._ends)
        while new:
            found |= new
            new = {number for number, to in arcs if to in new} - found
        return frozenset(found)

    @cached_property
    def _ending(self) -> list[int]:
        """Tokens of text whose last character may lead to one."""
        machine = self._machine
        arcs = (arc for number in range(len(machine)) for arc in machine.arcs(number))
        ranges = [arc.ranges for arc in arcs if arc.to in self._ends]
        texts, apart = self._known.texts, set(self._apart)
        last = {c for c in {text[-1] for text in texts.values()} if _among(ranges, c)}
        return [token for token, text in texts.items() if text[-1] in last and token not in apart]

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


def _named(rules: Rules) -> set[int]:
    """Tokens that the grammar asks for."""
    sets = (body for body in rules.values() if isinstance(body, Tokens) and not body.is_any)
    return {t for body in sets for low, high in body.ids for t in range(low, high + 1)}


def _among(several: Iterable[Iterable[Range]], c: str) -> bool:
    return any(low <= ord(c) <= high for ranges in several for low, high in ranges)
