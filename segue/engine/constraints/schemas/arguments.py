"""A schema of an object, for those who write its properties otherwise than JSON does: each property by itself."""

from collections.abc import Set
from typing import NamedTuple

from segue.engine.constraints.grammar import Terminal
from segue.engine.constraints.lark_text import write
from segue.engine.constraints.regular import pruned
from segue.engine.constraints.schemas import judge, shapes
from segue.engine.constraints.schemas.documents import Documents, Part
from segue.engine.constraints.schemas.facts import EveryProperty, Fact, Goal, Goals, Names
from segue.engine.constraints.schemas.keywords.assertions import Unenforceable
from segue.engine.constraints.schemas.keywords.expander import Expander
from segue.engine.constraints.schemas.options import Options
from segue.engine.constraints.schemas.rules.emitter import Emitter
from segue.engine.constraints.schemas.rules.objects import Fields, Members
from segue.engine.constraints.schemas.values import Json, type_of


class Texts(NamedTuple):
    """The strings that a value may be, as they are."""

    are_all: bool  # whether any is fine
    listed: tuple[str, ...] = ()
    terminals: tuple[str, ...] = ()  # of those that are not listed


class Object(NamedTuple):
    named: dict[str, shapes.Named]
    others: Goals | None  # what properties of other names must meet; None if there may be none


class Arguments:
    def __init__(self, schema: Json, options: Options) -> None:
        documents = Documents(schema)
        self._root = Goal(documents.same(documents.root))
        self._expander = Expander(documents, options)
        self._options = options

    @property
    def ignored(self) -> tuple[str, ...]:
        """Pointers to keywords without effect, as far as the schema was read."""
        return tuple(self._expander.ignored)

    @property
    def whitespace(self) -> str | None:
        """What may stand between parts, as a regular expression; None if nothing may."""
        return self._options.whitespace

    @property
    def any_order(self) -> bool:
        return self._options.any_order

    def objects(self, goals: Goals | None = None) -> list[Object]:
        """The kinds of objects that meet the goals, or else fit the schema: one of them has to. Raises GrammarError."""
        wanted = (self._root,) if goals is None else goals
        found: list[Object] = []
        for branch in self._expander.together((*wanted, _of_types({"object"}))):
            facts = tuple(fact for fact in branch.facts if fact.of in ("", "object"))
            members = Fields(Emitter(self._expander, self._options), facts).members()
            if members is not None:
                found.append(self._told_apart(members, facts))
        if not found and goals is None:
            raise Unenforceable("no object fits the schema, and parameters are one")
        return found

    def arrays(self, goals: Goals) -> list[shapes.Arrays]:
        """The kinds of arrays that meet them. Raises Unenforceable for what looks at items together."""
        found: list[shapes.Arrays] = []
        for branch in self._expander.together((*goals, _of_types({"array"}))):
            facts = tuple(fact for fact in branch.facts if fact.of in ("", "array"))
            arrays = shapes.arrays_of(facts)
            if arrays.contains or (arrays.unique is not None and arrays.most not in (0, 1)):
                raise Unenforceable("contains and uniqueItems are not enforced in this style")
            if arrays.most is None or arrays.least <= arrays.most:
                found.append(arrays)
        return found

    def but_excluded(self, terminal: str) -> str:
        """Texts without those that hold what is excluded."""
        return self._options.but_excluded(terminal)

    def _is_excluded(self, text: str) -> bool:
        return any(each in text for each in self._options.excludes)

    def _told_apart(self, members: Members, facts: tuple[Fact, ...]) -> Object:
        """Raises Unenforceable for what counts properties, or looks at names that are not listed."""
        is_open = bool(members.free)
        num_required = sum(own.is_required for own in members.named.values())
        is_counted = members.least > num_required or (
            members.most is not None and (is_open or members.most < len(members.named))
        )
        if is_counted or members.some is not None:
            raise Unenforceable("properties are not counted in this style")
        if is_open and (
            any(map(_looks_at_names, facts)) or any(map(_is_name, self._options.excludes))
        ):
            raise Unenforceable(
                "patternProperties, propertyNames and excluded names are not enforced in this style"
            )
        return Object(members.named, members.free[0].goals if is_open else None)

    def types(self, goals: Goals) -> frozenset[str]:
        found: set[str] = set()
        for branch in self._expander.together(goals):
            values = judge.only(branch, self._expander)
            found |= branch.types if values is None else set(map(type_of, values))
        return frozenset(found)

    def texts(self, goals: Goals) -> Texts:
        listed: list[str] = []
        terminals: list[str] = []
        for branch in self._expander.together((*goals, _of_types({"string"}))):
            values = judge.only(branch, self._expander)
            facts = tuple(fact for fact in branch.facts if fact.of in ("", "string"))
            strings = shapes.strings_of(facts)
            if values is not None:
                listed += [v for v in values if isinstance(v, str) and not self._is_excluded(v)]
            elif strings.are_all:
                return Texts(True)
            elif not strings.is_void:
                terminals.append(self.but_excluded(strings.terminal(escapes=None)))
        return Texts(False, tuple(dict.fromkeys(listed)), tuple(dict.fromkeys(terminals)))

    def scalars(self, goals: Goals) -> list[str]:
        """Null, booleans and numbers as terminals. Raises Unenforceable if they are not regular."""
        wanted = (*goals, _of_types({"null", "boolean", "number"}))
        nodes = Emitter(self._expander, self._options).scalars(wanted)
        found = [node.text for node in nodes if isinstance(node, Terminal)]
        if any(text.startswith("%") for text in found):
            raise Unenforceable("such numbers cannot be told from strings where both may stand")
        return found

    def json(self, goals: Goals, types: Set[str]) -> str | None:
        """Values of these types as Lark text; None if there are none."""
        rules = pruned(Emitter(self._expander, self._options).all((*goals, _of_types(types))))
        return None if rules is None else write(rules)


_PARTS: dict[frozenset[str], Part] = {}


def _of_types(types: Set[str]) -> Goal:
    """To be of one of these types."""
    key = frozenset(types)
    return Goal(_PARTS.setdefault(key, Part({"type": sorted(types)}, "#")))


def _looks_at_names(fact: Fact) -> bool:
    if isinstance(fact, EveryProperty):
        return bool(fact.keys.patterns) or fact.keys.wanted is not None
    return isinstance(fact, Names)


def _is_name(text: str) -> bool:
    """Whether it can be a part of an identifier."""
    return text.isascii() and text.replace("_", "a").isalnum()
