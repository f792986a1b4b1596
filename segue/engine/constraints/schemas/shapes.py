"""A branch, type by type: the facts about strings, arrays and objects put together."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, combinations

from segue.engine.constraints.grammar import Node
from segue.engine.constraints.scalars import oracle
from segue.engine.constraints.scalars.numbers import Numbers
from segue.engine.constraints.scalars.pattern import Pattern
from segue.engine.constraints.scalars.strings import (
    ALL_ESCAPES,
    lengths,
    literal,
    quoted,
    string_of,
)
from segue.engine.constraints.schemas.facts import (
    Absent,
    AtLeast,
    AtMost,
    Contains,
    EveryProperty,
    Except,
    Fact,
    Goal,
    Goals,
    IsInteger,
    Item,
    Keys,
    Length,
    Matches,
    Multiple,
    Property,
    Required,
    Rest,
    Size,
    SomeProperty,
    Unique,
)
from segue.engine.constraints.schemas.keywords.assertions import Unenforceable

MAX_PATTERNS = 6  # of names in one object: each may match beside each other


def excluded(facts: tuple[Fact, ...], kind: type) -> list[object]:
    return [
        v
        for fact in facts
        if isinstance(fact, Except)
        for v in fact.values
        if isinstance(v, kind) and (kind is bool or not isinstance(v, bool))
    ]


def numbers_of(facts: tuple[Fact, ...]) -> Numbers:
    found = Numbers()
    multiples, others = set[Fraction](), set[Fraction]()
    is_integer = False
    for fact in facts:
        match fact:
            case AtLeast(bound):
                found = found.above(bound)
            case AtMost(bound):
                found = found.below(bound)
            case IsInteger():
                is_integer = True
            case Multiple(step, is_wanted):
                (multiples if is_wanted else others).add(step)
    without = [Fraction(v) for v in excluded(facts, object) if isinstance(v, int | Fraction)]
    return Numbers(
        is_integer,
        found.low,
        found.high,
        frozenset(multiples),
        frozenset(others),
        frozenset(without),
    )


# --- strings --------------------------------------------------------------------------------------


@dataclass
class Strings:
    least: int = 0
    most: int | None = None
    holds: list[Node] = field(default_factory=list)
    lacks: list[Pattern] = field(default_factory=list)
    excluded: list[str] = field(default_factory=list)

    @property
    def is_void(self) -> bool:
        if self.most is not None and self.least > self.most:
            return True
        is_plain = len(self.holds) + (self.least > 0 or self.most is not None) < 2
        return not (is_plain and not self.lacks and not self.excluded) and oracle.is_empty(
            self.terminal()
        )

    def terminal(self, escapes: str | None = ALL_ESCAPES) -> str:
        """Without escapes: the texts themselves, not as JSON."""
        parts = [f"/{string_of(node, escapes)}/" for node in self.holds]
        if self.least or self.most is not None or not parts:
            parts.append(f"/{string_of(lengths(self.least, self.most), escapes)}/")
        parts += [f"~({pattern_terminal(pattern, escapes)})" for pattern in self.lacks]
        if self.excluded:
            parts.append(but_not(self.excluded, escapes))
        return " & ".join(parts)

    @property
    def are_all(self) -> bool:
        """Whether every string is among them."""
        return not (
            self.least or self.most is not None or self.holds or self.lacks or self.excluded
        )

    def holds_text(self, text: str) -> bool:
        if not self.holds and not self.lacks:
            is_long = self.most is not None and len(text) > self.most
            return len(text) >= self.least and not is_long and text not in self.excluded
        return oracle.matches(self.terminal(), quoted(text))


def but_not(texts: list[str], escapes: str | None) -> str:
    return f"~/{'|'.join(literal(quoted(text, escapes)) for text in texts)}/"


def pattern_terminal(pattern: Pattern, escapes: str | None = ALL_ESCAPES) -> str:
    parts = [f"/{string_of(node, escapes)}/" for node in pattern.holds]
    return " & ".join(parts + [f"~/{string_of(node, escapes)}/" for node in pattern.lacks])


def strings_of(facts: tuple[Fact, ...]) -> Strings:
    found = Strings(excluded=[v for v in excluded(facts, str) if isinstance(v, str)])
    for fact in facts:
        match fact:
            case Length(least, most):
                found.least = max(found.least, least)
                found.most = _lower(found.most, most)
            case Matches(pattern, True):
                found.holds += [n for n in pattern.holds if n not in found.holds]
                found.lacks += [Pattern((n,)) for n in pattern.lacks]
            case Matches(pattern, False):
                found.lacks.append(pattern)
    return found


def _lower(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


# --- arrays ---------------------------------------------------------------------------------------


@dataclass
class Arrays:
    items: list[Goals]
    rest: Goals
    least: int
    most: int | None
    contains: list[Contains]
    unique: Unique | None

    def at(self, index: int) -> Goals:
        return self.items[index] if index < len(self.items) else self.rest


def arrays_of(facts: tuple[Fact, ...]) -> Arrays:
    starts = [f.start for f in facts if isinstance(f, Rest)]
    ends = [f.index + 1 for f in facts if isinstance(f, Item)]
    sizes = [f for f in facts if isinstance(f, Size)]
    most: int | None = None
    for size in sizes:
        most = _lower(most, size.most)
    return Arrays(
        [_at(facts, index) for index in range(max(starts + ends, default=0))],
        tuple(f.goal for f in facts if isinstance(f, Rest)),
        max((f.least for f in sizes), default=0),
        most,
        [f for f in facts if isinstance(f, Contains) and (f.least > 0 or f.most is not None)],
        next((f for f in facts if isinstance(f, Unique)), None),
    )


def _at(facts: tuple[Fact, ...], index: int) -> Goals:
    found: list[Goal] = []
    for fact in facts:
        match fact:
            case Item(at, goal) if at == index:
                found.append(goal)
            case Rest(start, goal) if start <= index:
                found.append(goal)
    return tuple(found)


# --- objects --------------------------------------------------------------------------------------


@dataclass
class Named:
    goals: Goals
    is_required: bool


@dataclass
class Free:
    """Properties whose names are not listed."""

    key: str  # a terminal
    patterns: frozenset[Pattern]  # that its names match
    goals: Goals


def is_match(pattern: Pattern, name: str) -> bool:
    return oracle.matches(pattern_terminal(pattern), quoted(name))


def is_among(name: str, keys: Keys) -> bool:
    return (
        name not in keys.names
        and not any(is_match(pattern, name) for pattern in keys.patterns)
        and (keys.wanted is None or is_match(keys.wanted, name))
    )


def listed_names(facts: tuple[Fact, ...]) -> dict[str, None]:
    """Every name that is mentioned, those of properties first."""
    found: dict[str, None] = {f.name: None for f in facts if isinstance(f, Property)}
    for fact in facts:
        match fact:
            case Required(name) | Absent(name):
                found.setdefault(name)
            case EveryProperty(keys) | SomeProperty(keys):
                found.update(dict.fromkeys(sorted(keys.names - found.keys())))
    return found


def goals_by_name(names: Iterable[str], facts: tuple[Fact, ...]) -> dict[str, Goals]:
    """What the property of each name must meet."""
    found: dict[str, list[Goal]] = {name: [] for name in names}
    for fact in facts:
        match fact:
            case Property(name, goal) if name in found:
                found[name].append(goal)
            case EveryProperty(keys, goal):
                for name in found:
                    if is_among(name, keys):
                        found[name].append(goal)
    return {name: tuple(goals) for name, goals in found.items()}


def free_of(facts: tuple[Fact, ...], taken: list[str], keys: list[str], escapes: str) -> list[Free]:
    """The kinds of free names: by which patterns they match. `keys`: terminals, one of which each must match."""
    every = [f for f in facts if isinstance(f, EveryProperty)]
    looked_at = [f.keys for f in facts if isinstance(f, EveryProperty | SomeProperty)]
    patterns = list(
        dict.fromkeys(
            p for k in looked_at for p in (*k.patterns, *([k.wanted] if k.wanted else []))
        )
    )
    if len(patterns) > MAX_PATTERNS:
        raise Unenforceable(f"more than {MAX_PATTERNS} patterns for the names of one object")
    found: list[Free] = []
    for matched in map(
        frozenset, chain.from_iterable(combinations(patterns, n) for n in range(len(patterns) + 1))
    ):
        goals = tuple(f.goal for f in every if is_kind(matched, f.keys))
        if any(goal.part.value is (not goal.is_wanted) for goal in goals):
            continue
        parts = [f"({' | '.join(keys)})"]
        parts += [f"({pattern_terminal(p, escapes)})" for p in patterns if p in matched]
        parts += [f"~({pattern_terminal(p, escapes)})" for p in patterns if p not in matched]
        parts += [but_not(taken, escapes)] if taken else []
        terminal = " & ".join(parts)
        if not patterns or not oracle.is_empty(terminal):
            found.append(Free(terminal, matched, goals))
    return found


def is_kind(matched: frozenset[Pattern], keys: Keys) -> bool:
    return (keys.wanted is None or keys.wanted in matched) and not matched & set(keys.patterns)
