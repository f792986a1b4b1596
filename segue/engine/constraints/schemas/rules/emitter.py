"""Goals as rules of a grammar: one rule for each set of goals that a value must meet."""

from fractions import Fraction

from segue.engine.constraints.grammar import (
    Either,
    GrammarError,
    Node,
    Ref,
    Rules,
    Seq,
    Terminal,
    seq,
)
from segue.engine.constraints.scalars import oracle
from segue.engine.constraints.scalars.numbers import by_json, value_regex, written
from segue.engine.constraints.scalars.strings import literal, quoted
from segue.engine.constraints.schemas import judge, shapes
from segue.engine.constraints.schemas.facts import (
    Branch,
    Except,
    Fact,
    Goal,
    Goals,
    IsInteger,
    Only,
    Reader,
)
from segue.engine.constraints.schemas.keywords.assertions import Unenforceable
from segue.engine.constraints.schemas.keywords.expander import ANNOTATIONS, Expander
from segue.engine.constraints.schemas.options import Options
from segue.engine.constraints.schemas.rules.arrays import Tuples
from segue.engine.constraints.schemas.rules.choice import factored
from segue.engine.constraints.schemas.rules.objects import Fields
from segue.engine.constraints.schemas.spaces import Spaces
from segue.engine.constraints.schemas.values import Json, type_of

MAX_RULES = 20_000
_ORDER = ("null", "boolean", "number", "string", "array", "object")
NEVER = Either(())


class Emitter:
    def __init__(self, expander: Expander, options: Options) -> None:
        self._expander = expander
        self._spelling = options
        self.spaces = Spaces(options)
        self.rules: Rules = {}
        self._names: dict[frozenset[Goal], str] = {}
        self._todo: list[tuple[str, Goals]] = []

    @property
    def options(self) -> Options:
        return self._spelling

    @property
    def reader(self) -> Reader:
        return self._expander

    def all(self, goals: Goals) -> Rules:
        """Rules for values that meet the goals; the first is `root`. Raises GrammarError."""
        self.rules["root"] = self._value(goals)
        while self._todo:
            name, goals = self._todo.pop()
            self.rules[name] = self._options(goals)
        return self.rules | self.spaces.rules

    def void_places(self) -> list[str]:
        """The schemas that no value fits, whatever others say."""
        return [
            goal.part.path
            for goals, name in self._names.items()
            for goal in goals
            if self.rules.get(name) == NEVER
        ]

    def value(self, goals: Goals) -> Node:
        """Values that meet them, as parts of others."""
        return self.spaces.after(self._value(goals))

    def _value(self, goals: Goals) -> Node:
        wanted = tuple(dict.fromkeys(goal for goal in goals if not _is_free(goal)))
        key = frozenset(wanted)
        if key not in self._names:
            self._names[key] = self._new_name("v")
            self._todo.append((self._names[key], wanted))
        return Ref(self._names[key])

    def rule(self, body: Node) -> Node:
        """A rule name for it, so that it is written only once."""
        name = self._new_name("p")
        self.rules[name] = body
        return Ref(name)

    def define(self, place: Node, body: Node) -> None:
        """The rule of a name that was assigned before."""
        if isinstance(place, Ref):
            self.rules[place.name] = body

    def _new_name(self, kind: str) -> str:
        count = len(self.rules) + len(self._todo)
        if count > MAX_RULES:
            raise GrammarError("the schema is too large")
        return f"{kind}{count}_{len(self._names)}"

    def _options(self, goals: Goals) -> Node:
        found: dict[Node, None] = {}
        try:
            for branch in self._expander.together(goals):
                found.update(dict.fromkeys(self._branch(branch)))
        except GrammarError as error:
            raise _placed(error, goals) from None
        return factored(found) if found else NEVER

    def scalars(self, goals: Goals) -> list[Node]:
        """Values that meet the goals, which allow neither strings nor arrays nor objects."""
        return [node for branch in self._expander.together(goals) for node in self._branch(branch)]

    def _branch(self, branch: Branch) -> list[Node]:
        values = judge.only(branch, self._expander)
        if values is not None:
            return self._constants(values, branch)
        found: list[Node] = []
        for kind in _ORDER:
            if kind in branch.types:
                facts = tuple(f for f in branch.facts if f.of in ("", kind))
                found += self._of_type(kind, facts)
        return found

    def _of_type(self, kind: str, facts: tuple[Fact, ...]) -> list[Node]:
        match kind:
            case "null":
                return [] if None in _excluded(facts, "null") else [Terminal('"null"')]
            case "boolean":
                words = {True: '"true"', False: '"false"'}
                left = [w for b, w in words.items() if b not in _excluded(facts, "boolean")]
                return [Terminal(" | ".join(left))] if left else []
            case "number":
                return self._numbers(facts)
            case "string":
                return self._strings(facts)
            case "array":
                return Tuples(self, shapes.arrays_of(facts)).options()
        return Fields(self, facts).options()

    def _strings(self, facts: tuple[Fact, ...]) -> list[Node]:
        strings = shapes.strings_of(facts)
        if strings.is_void:
            return []
        terminal = self._spelling.but_excluded(strings.terminal(self._spelling.escapes))
        is_void = bool(self._spelling.excludes) and oracle.is_empty(terminal)
        return [] if is_void else [Terminal(terminal)]

    def _numbers(self, facts: tuple[Fact, ...]) -> list[Node]:
        numbers, max_digits = shapes.numbers_of(facts), self._spelling.max_digits
        few = numbers.few()
        if few == []:
            return []
        try:
            terminal = written(numbers, max_digits)
        except GrammarError as error:
            schema = by_json(numbers, is_short=max_digits is not None)
            if schema is None:
                raise Unenforceable(str(error)) from None
            return [Terminal(f"%json {schema}")]
        is_plain = few is not None or " & " not in terminal
        return [] if not is_plain and oracle.is_empty(terminal) else [Terminal(terminal)]

    # --- values that are listed -------------------------------------------------------------------

    def _constants(self, values: list[Json], branch: Branch) -> list[Node]:
        """Values that are no arrays or objects are one terminal."""
        values = [value for value in values if not self._spelling.is_excluded(value)]
        plain = [v for v in values if not isinstance(v, list | dict)]
        is_whole = any(f == IsInteger() for f in branch.facts)
        is_integer = is_whole or not any(
            isinstance(f, Only) and f.is_number_meant for f in branch.facts
        )
        found: list[Node] = []
        if plain:
            found.append(Terminal(f"/{'|'.join(self._regex(v, is_integer) for v in plain)}/"))
        return found + [self._constant(v) for v in values if isinstance(v, list | dict)]

    def _regex(self, value: Json, is_integer: bool) -> str:
        match type_of(value):
            case "null":
                return "null"
            case "boolean":
                return "true" if value else "false"
            case "number":
                return value_regex(Fraction(value), is_integer)
        return literal(quoted(value, self._spelling.escapes))

    def constant(self, value: Json) -> Node:
        """One value, as a part of another."""
        return self.spaces.after(self._constant(value))

    def _constant(self, value: Json) -> Node:
        if isinstance(value, list):
            return self.listed("[", [self.constant(item) for item in value], "]")
        if isinstance(value, dict):
            items = [seq(self.key(name), self.constant(item)) for name, item in value.items()]
            return self.listed("{", items, "}")
        return Terminal(f"/{self._regex(value, True)}/")

    def key(self, name: str) -> Node:
        """A name and its colon."""
        key = Terminal(f"/{literal(quoted(name, self._spelling.escapes))}/")
        return seq(key, self.spaces.colon)

    def listed(self, begin: str, items: list[Node], end: str) -> Node:
        inner: list[Node] = []
        for item in items:
            inner += [self.spaces.comma, item] if inner else [item]
        return Seq((self.spaces.after(Terminal(f'"{begin}"')), *inner, Terminal(f'"{end}"')))


def _placed(error: GrammarError, goals: Goals) -> GrammarError:
    """With the place of the schema, where what refused it did not know that."""
    if not goals or str(error).startswith("at "):
        return error
    return type(error)(f"at {goals[0].part.path}: {error}")


def _excluded(facts: tuple[Fact, ...], kind: str) -> list[Json]:
    found: list[Json] = []
    for fact in facts:
        if isinstance(fact, Except):
            found += [v for v in fact.values if type_of(v) == kind]
    return found


def _is_free(goal: Goal) -> bool:
    """Whether it allows every value."""
    schema = goal.part.value
    if isinstance(schema, bool):
        return schema == goal.is_wanted
    return (
        goal.is_wanted
        and isinstance(schema, dict)
        and all(k in ANNOTATIONS or k.startswith("x-") for k in schema)
    )
