"""Objects as rules: listed properties in their order, then those whose names are free.

Free names may come twice in a text, and then the last one counts. So no rule here takes two of them for two properties.
"""

from collections import deque
from typing import NamedTuple

from segue.engine.constraints.grammar import EMPTY, Either, Node, Repeat, Seq, Terminal, seq
from segue.engine.constraints.scalars.strings import literal, quoted
from segue.engine.constraints.schemas import judge, shapes
from segue.engine.constraints.schemas.facts import (
    Absent,
    Count,
    Fact,
    Names,
    Required,
    SomeProperty,
    Writer,
)
from segue.engine.constraints.schemas.keywords.assertions import Unenforceable
from segue.engine.constraints.schemas.options import MAX_ANY_ORDER
from segue.engine.constraints.schemas.rules.choice import Choice
from segue.engine.constraints.schemas.shapes import Free, Named

MAX_OPTIONAL = 450  # properties that may be left out; each costs the parser a few items
MAX_STATES = 5000
_OPEN, _CLOSE = Terminal('"{"'), Terminal('"}"')


class Members(NamedTuple):
    named: dict[str, Named]
    free: list[Free]
    some: SomeProperty | None  # at least one such property must be there
    least: int
    most: int | None


class Fields:
    def __init__(self, writer: Writer, facts: tuple[Fact, ...]) -> None:
        self._writer = writer
        self._facts = facts
        self._escapes = writer.options.escapes
        counts = [f for f in facts if isinstance(f, Count)]
        self._least = max((f.least for f in counts), default=0)
        tops = [f.most for f in counts if f.most is not None]
        self._most = min(tops) if tops else None

    def options(self) -> list[Node]:
        members = self.members()
        if members is None:
            return []
        if members.some is None:
            return self._written(members.named, members.free, None)
        return self._with_some(members.named, members.free, members.some)

    def members(self) -> Members | None:
        """Its properties; None if one is missing that must be there."""
        keys, more_names = self._key_terminals()
        names = shapes.listed_names(self._facts) | dict.fromkeys(more_names)
        num_optional = len(names) - sum(isinstance(f, Required) for f in self._facts)
        if num_optional > MAX_OPTIONAL:
            raise Unenforceable(
                f"{num_optional} properties of one object may be left out; at most {MAX_OPTIONAL} can"
            )
        self._writer.reader.spend(len(names) * len(self._facts) // 10)
        named = self._named(names)
        if named is None:
            return None
        free = shapes.free_of(self._facts, list(names), keys, self._escapes) if keys else []
        some = [f for f in self._facts if isinstance(f, SomeProperty)]
        if len(some) > 1:
            raise Unenforceable("two properties are wanted whose names are free")
        return Members(named, free, some[0] if some else None, self._least, self._most)

    def _key_terminals(self) -> tuple[list[str], list[str]]:
        """What free names must match, and names that propertyNames lists."""
        goals = tuple(f.goal for f in self._facts if isinstance(f, Names))
        if not goals:
            return [self._writer.options.but_excluded(shapes.Strings().terminal(self._escapes))], []
        keys: list[str] = []
        listed: list[str] = []
        for branch in self._writer.reader.together(goals):
            if "string" not in branch.types:
                continue
            values = judge.only(branch, self._writer.reader)
            if values is not None:
                listed += [v for v in values if isinstance(v, str)]
                continue
            strings = shapes.strings_of(tuple(f for f in branch.facts if f.of in ("", "string")))
            if not strings.is_void:
                terminal = strings.terminal(self._escapes)
                keys.append(f"({self._writer.options.but_excluded(terminal)})")
        return keys, listed

    def _named(self, names: dict[str, None]) -> dict[str, Named] | None:
        """Those that may be there; None if one is missing that must."""
        required = {f.name for f in self._facts if isinstance(f, Required)}
        absent = {f.name for f in self._facts if isinstance(f, Absent)}
        goals = tuple(f.goal for f in self._facts if isinstance(f, Names))
        by_name = shapes.goals_by_name(names, self._facts)
        found: dict[str, Named] = {}
        for name in names:
            is_excluded = self._writer.options.is_excluded(name)
            is_allowed = (
                not is_excluded
                and name not in absent
                and judge.meets(name, goals, self._writer.reader)
            )
            if is_allowed:
                found[name] = Named(by_name[name], name in required)
            elif name in required:
                return None
        return found

    def _with_some(
        self, named: dict[str, Named], free: list[Free], some: SomeProperty
    ) -> list[Node]:
        """At least one property that meets a goal: a listed one, or the last of the free ones."""
        found: list[Node] = []
        for name, own in named.items():
            if shapes.is_among(name, some.keys):
                having = Named((*own.goals, some.goal), True)
                found += self._written({**named, name: having}, free, None)
        last = [
            Free(kind.key, kind.patterns, (*kind.goals, some.goal))
            for kind in free
            if shapes.is_kind(kind.patterns, some.keys)
        ]
        return found + (self._written(named, free, last) if last else [])

    # --- rules ------------------------------------------------------------------------------------

    def _written(
        self, named: dict[str, Named], free: list[Free], last: list[Free] | None
    ) -> list[Node]:
        fields = [
            (seq(self._key(name), self._writer.value(own.goals)), own.is_required)
            for name, own in named.items()
        ]
        num_required = sum(is_required for _, is_required in fields)
        rest, ending = self._kinds(free), None if last is None else self._kinds(last)
        is_counted = self._least > num_required or self._most is not None
        if is_counted or ending is not None:
            body = self._counted(fields, rest, ending)
        elif self._writer.options.any_order and len(fields) <= MAX_ANY_ORDER:
            body = self._any_order(fields, rest)
        else:
            body = self._plain(fields, rest)
        return [Seq((self._writer.spaces.after(_OPEN), body, _CLOSE))]

    def _key(self, name: str) -> Node:
        text = literal(quoted(name, self._escapes))
        return seq(Terminal(f"/{text}/"), self._writer.spaces.colon)

    def _kinds(self, free: list[Free]) -> Node | None:
        options = [
            seq(Terminal(kind.key), self._writer.spaces.colon, self._writer.value(kind.goals))
            for kind in free
        ]
        return self._writer.rule(Either(tuple(options))) if options else None

    def _plain(self, fields: list[tuple[Node, bool]], rest: Node | None) -> Node:
        """From the last to the first, each with all that may follow it."""
        comma = self._writer.spaces.comma
        more = () if rest is None else (Repeat(seq(comma, rest), 0, None),)
        after = deque[Node](more)  # what follows a property
        later = Choice(self._writer.rule)  # what follows its comma, if that is not always the same
        if rest is not None:
            later.add(seq(rest, *more))
        is_needed = False
        for field, is_required in reversed(fields):
            if is_required:
                after.extendleft((field, comma))
                later.clear()
                is_needed = True
                continue
            if is_needed and not later:
                later.add(self._writer.rule(seq(*tuple(after)[1:])))
                after = deque((comma, later.node))
            later.add(self._writer.rule(seq(field, *after)))
            following = seq(comma, later.node)
            after = deque((following if is_needed else Repeat(following, 0, 1),))
        if not later:
            return seq(*tuple(after)[1:]) if is_needed else EMPTY
        return later.node if is_needed else Repeat(later.node, 0, 1)

    def _any_order(self, fields: list[tuple[Node, bool]], rest: Node | None) -> Node:
        """By which there are already."""
        comma = self._writer.spaces.comma
        again = EMPTY if rest is None else Repeat(seq(comma, rest), 0, None)
        needed = sum(1 << i for i, (_, is_required) in enumerate(fields) if is_required)

        def more(have: int, before: tuple[Node, ...]) -> list[Node]:
            """One more, or none if none is missing."""
            missing = [(i, field) for i, (field, _) in enumerate(fields) if not have >> i & 1]
            found = [seq(*before, field, after[have | 1 << i]) for i, field in missing]
            return [EMPTY, *found] if needed & ~have == 0 else found

        after: dict[int, Node] = {}
        for have in reversed(range(1 << len(fields))):  # those that follow are known
            after[have] = self._writer.rule(seq(again, Either(tuple(more(have, (comma,))))))
        first = more(0, ()) + ([] if rest is None else [seq(rest, after[0])])
        return Either(tuple(first))

    def _counted(
        self, fields: list[tuple[Node, bool]], rest: Node | None, ending: Node | None
    ) -> Node:
        """By how many there are already."""
        cap = self._least if self._most is None else self._most
        if (len(fields) + 1) * (min(cap, len(fields)) + 1) > MAX_STATES:
            raise Unenforceable("too many properties to count")
        states: dict[tuple[int, int, bool], Node] = {}

        def state(index: int, num: int, has_any: bool) -> Node:
            key = index, min(num, cap) if self._most is None else num, has_any
            if key not in states:
                states[key] = self._writer.rule(make(*key))
            return states[key]

        def make(index: int, num: int, has_any: bool) -> Node:
            if index == len(fields):
                return self._end(num, has_any, rest, ending)
            field, is_required = fields[index]
            comma = (self._writer.spaces.comma,) if has_any else ()
            options: list[Node] = []
            if self._most is None or num < self._most:
                options.append(seq(*comma, field, state(index + 1, num + 1, True)))
            if not is_required:
                options.append(state(index + 1, num, has_any))
            return Either(tuple(options))

        return state(0, 0, False)

    def _end(self, num: int, has_any: bool, rest: Node | None, ending: Node | None) -> Node:
        """Free names after the listed ones."""
        missing = max(0, self._least - num)
        room = None if self._most is None else self._most - num
        if ending is not None:
            missing, room = missing - 1, None if room is None else room - 1
        if room is not None and room < max(0, missing):
            return Either(())
        if missing > (1 if ending is None else 0) and rest is not None:
            if not self._writer.options.is_lenient:
                raise Unenforceable(
                    "minProperties cannot be enforced where names are free: the same name may come twice"
                )
            self._writer.reader.ignore("minProperties")
            missing = 0
        if missing > 0 and rest is None:
            return Either(())
        comma = self._writer.spaces.comma
        tail = EMPTY if ending is None else ending
        many = (
            EMPTY if rest is None or room == 0 else Repeat(seq(comma, rest), max(0, missing), room)
        )
        if has_any:
            return seq(many, *(() if ending is None else (comma, ending)))
        options: list[Node] = [tail] if missing <= 0 else []
        if rest is not None and room != 0:
            less = None if room is None else room - 1
            closing = () if ending is None else (comma, ending)
            options.append(seq(rest, Repeat(seq(comma, rest), max(0, missing - 1), less), *closing))
        return Either(tuple(options))
