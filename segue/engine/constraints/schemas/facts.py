"""What schemas say, keyword by keyword: a branch is a set of facts that a value may meet together.

A schema is a list of branches, and a value fits if it fits one. A fact concerns one type of value and says nothing
about others. Facts about parts of a value name other schemas, wanted or unwanted.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Protocol

from segue.engine.constraints.grammar import Node
from segue.engine.constraints.scalars.numbers import Bound
from segue.engine.constraints.scalars.pattern import Pattern
from segue.engine.constraints.schemas.documents import Documents, Part
from segue.engine.constraints.schemas.options import Options
from segue.engine.constraints.schemas.spaces import Spaces
from segue.engine.constraints.schemas.values import TYPES, Json, key_of


@dataclass(frozen=True)
class Goal:
    """To fit a schema, or not to."""

    part: Part
    is_wanted: bool = True

    def opposite(self) -> "Goal":
        return Goal(self.part, not self.is_wanted)


Goals = tuple[Goal, ...]  # to meet together


@dataclass(frozen=True)
class Only:
    """One of these values."""

    values: tuple[Json, ...] = field(hash=False)
    is_number_meant: bool  # then an integer may be written as 1.0 too
    of = ""

    @cached_property
    def keys(self) -> frozenset[Hashable]:
        return frozenset(map(key_of, self.values))


@dataclass(frozen=True)
class Except:
    """None of these values, which are neither arrays nor objects."""

    values: tuple[Json, ...] = field(hash=False)
    of = ""

    @cached_property
    def keys(self) -> frozenset[Hashable]:
        return frozenset(map(key_of, self.values))


@dataclass(frozen=True)
class AtLeast:
    bound: Bound
    of = "number"


@dataclass(frozen=True)
class AtMost:
    bound: Bound
    of = "number"


@dataclass(frozen=True)
class IsInteger:
    """An integer."""

    of = "number"


@dataclass(frozen=True)
class Multiple:
    step: Fraction
    is_wanted: bool
    of = "number"


@dataclass(frozen=True)
class Length:
    least: int
    most: int | None
    of = "string"


@dataclass(frozen=True)
class Matches:
    pattern: Pattern
    is_wanted: bool
    of = "string"


@dataclass(frozen=True)
class Item:
    index: int
    goal: Goal
    of = "array"


@dataclass(frozen=True)
class Rest:
    """Every item from an index on."""

    start: int
    goal: Goal
    of = "array"


@dataclass(frozen=True)
class Size:
    least: int
    most: int | None
    of = "array"


@dataclass(frozen=True)
class Contains:
    """So many of the items from an index on."""

    goal: Goal
    least: int
    most: int | None
    start: int = 0
    of = "array"


@dataclass(frozen=True)
class Unique:
    part: Part  # that says so
    of = "array"


@dataclass(frozen=True)
class Keys:
    """Which names: none of these, none that match those, and all that match the one if there is one."""

    names: frozenset[str] = frozenset()
    patterns: tuple[Pattern, ...] = ()
    wanted: Pattern | None = None


@dataclass(frozen=True)
class Property:
    name: str
    goal: Goal
    of = "object"


@dataclass(frozen=True)
class EveryProperty:
    """Every property with such a name."""

    keys: Keys
    goal: Goal
    of = "object"


@dataclass(frozen=True)
class SomeProperty:
    """At least one property with such a name."""

    keys: Keys
    goal: Goal
    of = "object"


@dataclass(frozen=True)
class Names:
    """Every name, as a string."""

    goal: Goal
    of = "object"


@dataclass(frozen=True)
class Required:
    name: str
    of = "object"


@dataclass(frozen=True)
class Absent:
    name: str
    of = "object"


@dataclass(frozen=True)
class Count:
    """Of properties."""

    least: int
    most: int | None
    of = "object"


Fact = (
    Only | Except | AtLeast | AtMost | IsInteger | Multiple | Length | Matches | Item | Rest | Size | Contains
    | Unique | Property | EveryProperty | SomeProperty | Names | Required | Absent | Count
)  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """What of a value the keywords of a schema have looked at, for those that concern the rest."""

    names: frozenset[str] = frozenset()
    patterns: tuple[Pattern, ...] = ()
    all_names: bool = False
    num_items: int = 0
    all_items: bool = False
    items: tuple[Goal, ...] = ()  # any item that meets one of these

    def __or__(self, other: "Seen") -> "Seen":
        if other is UNSEEN:
            return self
        return Seen(
            self.names | other.names,
            self.patterns + other.patterns,
            self.all_names or other.all_names,
            max(self.num_items, other.num_items),
            self.all_items or other.all_items,
            self.items + other.items,
        )


UNSEEN = Seen()
_ALL = frozenset(TYPES)


@dataclass(frozen=True)
class Branch:
    types: frozenset[str] = _ALL
    facts: tuple[Fact, ...] = ()
    seen: Seen = UNSEEN

    def meet(self, other: "Branch") -> "Branch":
        return Branch(self.types & other.types, self.facts + other.facts, self.seen | other.seen)


Branches = list[Branch]
ANYTHING: Branches = [Branch()]


def just(*facts: Fact, seen: Seen = UNSEEN) -> Branches:
    """These facts hold, for values that they concern."""
    return [Branch(facts=facts, seen=seen)]


def must(kind: str, *facts: Fact) -> Branches:
    """A value of this type, for which the facts hold."""
    return [Branch(frozenset({kind}), facts)]


class Reader(Protocol):
    """What reads schemas: keywords that hold others ask it for theirs."""

    documents: Documents
    one_of_is_any_of: bool

    def goal(self, part: Part, *steps: str | int, is_wanted: bool = True) -> Goal: ...

    def branches(self, goal: Goal, is_tracked: bool = False) -> Branches: ...

    def together(self, goals: Iterable[Goal], is_tracked: bool = False) -> Branches: ...

    def meet(self, one: Branches, other: Branches) -> Branches: ...

    def limited(self, branches: Branches) -> Branches: ...

    def are_apart(self, one: Branches, other: Branches) -> bool: ...

    def spend(self, steps: int) -> None: ...

    def ignore(self, keyword: str, part: Part | None = None) -> None: ...


class Writer(Protocol):
    """What writes the rules of values: arrays and objects ask it for those of their parts."""

    @property
    def options(self) -> Options: ...

    @property
    def spaces(self) -> Spaces: ...

    @property
    def reader(self) -> Reader: ...

    def value(self, goals: Goals) -> Node:
        """With the space that may follow it, as has a constant."""
        ...

    def constant(self, value: Json) -> Node: ...

    def rule(self, body: Node) -> Node: ...

    def define(self, place: Node, body: Node) -> None: ...


# The reader, the schema, the keyword's value, whether it is wanted, and whether it matters what was looked at.
Apply = Callable[[Reader, Part, Json, bool, bool], Branches]
