"""Schemas and their negations as branches of facts. A keyword is translated exactly, or refused."""

from collections.abc import Iterable
from difflib import get_close_matches
from functools import reduce

from segue.engine.constraints.grammar import GrammarError
from segue.engine.constraints.schemas.documents import Documents, Part
from segue.engine.constraints.schemas.facts import ANYTHING, Branches, Goal
from segue.engine.constraints.schemas.judge import is_void
from segue.engine.constraints.schemas.keywords.assertions import (
    ASSERTIONS,
    LENIENTLY,
    Unenforceable,
    fail,
)
from segue.engine.constraints.schemas.keywords.combining import COMBINING, reference
from segue.engine.constraints.schemas.keywords.containing import (
    CONTAINING,
    unevaluated,
    without_containers,
)
from segue.engine.constraints.schemas.options import Options
from segue.engine.constraints.schemas.values import Json

MAX_BRANCHES = 2000
MAX_WORK = 200_000
MAX_DEPTH = 100  # of schemas that stand for others
ANNOTATIONS = frozenset(
    {
        "$schema",
        "$id",
        "id",
        "$anchor",
        "$dynamicAnchor",
        "$comment",
        "$defs",
        "definitions",
        "title",
    }
    | {"description", "default", "examples", "example", "readOnly", "writeOnly", "deprecated"}
    # OpenAPI's, a hint for readers; the condition is a `const` in each option.
    | {"discriminator"}
    | {"contentMediaType", "contentEncoding", "contentSchema"}
)


_DEPTH = 3  # of a value, to which options of oneOf are compared


class _Undecided(Exception):
    """The schema refers to itself while it is being expanded."""


class Expander:
    def __init__(self, documents: Documents, options: Options) -> None:
        self.documents = documents
        self.one_of_is_any_of = options.one_of_is_any_of or options.is_lenient
        self.ignored: dict[str, None] = {}  # pointers to keywords that have no effect
        self._is_lenient = options.is_lenient
        self._asserts_format = options.asserts_format
        self._refusals: list[str] = []  # schemas that allow nothing
        self._unlisted: list[str] = []  # properties that must be there and must not
        self._known: dict[tuple[Goal, bool], Branches] = {}
        self._entered: list[Goal] = []  # schemas that are being read, each within the one before
        self._around: list[Goal] = []  # those around a question that came up while they were read
        self._work = 0
        self._num_loops = 0  # how often a schema that is being read was met again

    def reason(self, void_places: list[str]) -> str:
        """Why no value fits. `void_places`: schemas that no value fits, whatever the schemas beside them say."""
        if self._num_loops:
            return "no finite value fits the schema: it always requires itself again"
        nothing = [f"nothing fits {place}" for place in void_places[:3] if place != "#"]
        return "; ".join(
            [
                "no value fits the schema",
                *dict.fromkeys(self._unlisted[:3] or self._refusals[:3] or nothing),
            ]
        )

    def goal(self, part: Part, *steps: str | int, is_wanted: bool = True) -> Goal:
        return Goal(self.documents.same(part.child(*steps)), is_wanted)

    def branches(self, goal: Goal, is_tracked: bool = False) -> Branches:
        """The branches of values that meet the goal. Raises GrammarError.

        `is_tracked`: an outer schema has an `unevaluated…` keyword, so branches say what has been looked at.
        """
        key = goal, is_tracked
        if key in self._known:
            return self._known[key]
        if goal in self._entered:
            if not all(entered.is_wanted for entered in self._entered):
                raise fail(goal.part, "a schema refers to itself within its opposite")
            self._num_loops += 1
            return []  # what fits only if it fits already does not fit
        if goal in self._around:
            self._num_loops += 1
            raise _Undecided
        if len(self._entered) + len(self._around) > MAX_DEPTH:
            raise fail(goal.part, f"schemas stand for others more than {MAX_DEPTH} deep")
        self._entered.append(goal)
        before = self._num_loops
        try:
            found = self._read(goal, is_tracked)
        finally:
            self._entered.pop()
        if (not self._entered and not self._around) or self._num_loops == before:
            self._known[key] = found
        return found

    def _read(self, goal: Goal, is_tracked: bool) -> Branches:
        schema = goal.part.value
        if isinstance(schema, bool):
            if schema != goal.is_wanted:
                self._refusals.append(f"at {goal.part.path}: {str(schema).lower()}")
            return ANYTHING if schema == goal.is_wanted else []
        if not isinstance(schema, dict):
            raise fail(goal.part, "a schema must be an object or a boolean")
        if "$ref" in schema and goal.part.is_old:
            return reference(self, goal.part, schema["$ref"], goal.is_wanted, is_tracked)
        self._check_names(goal.part)
        self._unlisted += _unlisted(goal.part) if goal.is_wanted else []
        rest = [k for k in ("unevaluatedItems", "unevaluatedProperties") if k in schema]
        is_tracked = is_tracked or bool(rest)
        found: Branches = ANYTHING if goal.is_wanted else []
        for keyword, value in schema.items():
            if keyword in ANNOTATIONS or keyword.startswith("x-") or keyword in rest:
                continue
            said = self._say(goal.part, keyword, value, goal.is_wanted, is_tracked)
            found = self.meet(found, said) if goal.is_wanted else self.limited(found + said)
        for keyword in rest:
            found = unevaluated(self, goal, keyword, found)
        return found

    def _check_names(self, part: Part) -> None:
        dialect = part.value.get("$schema", "json-schema.org")
        if not isinstance(dialect, str) or "json-schema.org" not in dialect:
            if not isinstance(dialect, str) or not self._is_lenient:
                raise Unenforceable(f"at {part.path}: $schema names a dialect that is not known")
            self.ignore("$schema", part)
        for keyword in part.value:
            if keyword in _KNOWN or keyword.startswith("x-"):
                continue
            if not self._is_lenient:
                near = get_close_matches(keyword, _KNOWN, 1)
                meant = f"is {near[0]} meant? Else " if near else ""
                raise Unenforceable(
                    f"at {part.path}: the keyword {keyword!r} cannot be enforced; {meant}{LENIENTLY}"
                )
            self.ignore(keyword, part)

    def _say(
        self, part: Part, keyword: str, value: Json, is_wanted: bool, is_tracked: bool
    ) -> Branches:
        if keyword == "format" and not self._asserts_format:
            self.ignore(keyword, part)
            return ANYTHING if is_wanted else []
        try:
            if keyword in ASSERTIONS:
                said = ASSERTIONS[keyword].say(part, value, is_wanted)
                return (
                    without_containers(self, part, said) if keyword in ("const", "enum") else said
                )
            if keyword in APPLICATORS:
                return APPLICATORS[keyword](self, part, value, is_wanted, is_tracked)
        except Unenforceable:
            if not self._is_lenient:
                raise
            self.ignore(keyword, part)
            return ANYTHING
        return ANYTHING if is_wanted else []  # a companion, or unknown and ignored

    def are_apart(self, one: Branches, other: Branches) -> bool:
        """Whether no value meets both, as far as that is easy to see."""
        before, self._entered, self._around = self._entered, [], self._around + self._entered
        try:
            return all(is_void(a.meet(b), self, _DEPTH) for a in one for b in other)
        except _Undecided:
            return False
        finally:
            self._around = self._around[: len(self._around) - len(before)]
            self._entered = before

    def together(self, goals: Iterable[Goal], is_tracked: bool = False) -> Branches:
        """The branches in which all goals are met."""
        return reduce(self.meet, (self.branches(goal, is_tracked) for goal in goals), ANYTHING)

    def meet(self, one: Branches, other: Branches) -> Branches:
        if one is ANYTHING:
            return other
        self.spend(len(one) * len(other))
        return self.limited([met for a in one for b in other if (met := a.meet(b)).types])

    def limited(self, branches: Branches) -> Branches:
        if len(branches) > MAX_BRANCHES:
            raise Unenforceable(
                f"the schema has more than {MAX_BRANCHES} combinations of alternatives"
            )
        return branches

    def ignore(self, keyword: str, part: Part | None = None) -> None:
        """Record that a keyword has no effect. Without a schema: its place is not known."""
        name = keyword.replace("~", "~0").replace("/", "~1")
        self.ignored["#" + name if part is None else f"{part.path}/{name}"] = None

    def spend(self, steps: int) -> None:
        """Count work on one schema, in steps of about ten microseconds; too much of it is refused."""
        self._work += steps
        if self._work > MAX_WORK:
            raise GrammarError("the schema has too many combinations of alternatives")


APPLICATORS = COMBINING | CONTAINING
# They change what their neighbours say.
COMPANIONS = frozenset(
    {"then", "else", "minContains", "maxContains", "unevaluatedItems", "unevaluatedProperties"}
)
_KNOWN = dict.fromkeys([*ASSERTIONS, *APPLICATORS, *sorted(COMPANIONS), *sorted(ANNOTATIONS)])


def _unlisted(part: Part) -> list[str]:
    """Names that are required and permitted by nothing, which is mostly a name that was mistyped or changed."""
    schema = part.value
    required, listed = schema.get("required"), schema.get("properties", {})
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    if not is_closed or not isinstance(required, list) or not isinstance(listed, dict):
        return []
    missing = [name for name in required if isinstance(name, str) and name not in listed]
    return [
        f"at {part.path}: required names {name[:40]!r}, which is not among the properties"
        for name in missing[:3]
    ]
