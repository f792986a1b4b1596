"""Keywords about the items of arrays and the properties of objects."""

from segue.engine.constraints.grammar import GrammarError
from segue.engine.constraints.scalars.pattern import Pattern, read_pattern
from segue.engine.constraints.schemas.documents import Part
from segue.engine.constraints.schemas.facts import (
    ANYTHING,
    Absent,
    Apply,
    Branch,
    Branches,
    Contains,
    EveryProperty,
    Except,
    Fact,
    Goal,
    Item,
    Keys,
    Names,
    Property,
    Reader,
    Required,
    Rest,
    Seen,
    Size,
    SomeProperty,
    Unique,
    just,
    must,
)
from segue.engine.constraints.schemas.keywords.assertions import Unenforceable, fail, texts
from segue.engine.constraints.schemas.values import Json, is_count

# --- arrays -----------------------------------------------------------------------------------


def prefix_items(
    reader: Reader, part: Part, value: Json, is_wanted: bool, is_tracked: bool
) -> Branches:
    return _prefix(reader, part, "prefixItems", value, is_wanted)


def _prefix(reader: Reader, part: Part, keyword: str, value: Json, is_wanted: bool) -> Branches:
    if not isinstance(value, list):
        raise fail(part, f"{keyword} must be a list")
    goals = [reader.goal(part, keyword, i, is_wanted=is_wanted) for i in range(len(value))]
    if is_wanted:
        return just(*(Item(i, g) for i, g in enumerate(goals)), seen=Seen(num_items=len(goals)))
    return [b for i, g in enumerate(goals) for b in must("array", Size(i + 1, None), Item(i, g))]


def items(reader: Reader, part: Part, value: Json, is_wanted: bool, is_tracked: bool) -> Branches:
    if isinstance(value, list):  # the older spelling of prefixItems
        return _prefix(reader, part, "items", value, is_wanted)
    prefix = part.value.get("prefixItems")
    return _rest(reader, part, "items", len(prefix) if isinstance(prefix, list) else 0, is_wanted)


def additional_items(
    reader: Reader, part: Part, value: Json, is_wanted: bool, is_tracked: bool
) -> Branches:
    first = part.value.get("items")
    if isinstance(first, list):
        return _rest(reader, part, "additionalItems", len(first), is_wanted)
    if part.draft and "2020-12" not in part.draft:
        return ANYTHING if is_wanted else []
    raise fail(part, "additionalItems needs a list of items; after prefixItems write items")


def _rest(reader: Reader, part: Part, keyword: str, start: int, is_wanted: bool) -> Branches:
    goal = reader.goal(part, keyword, is_wanted=is_wanted)
    if is_wanted:
        return just(Rest(start, goal), seen=Seen(all_items=True))
    return must("array", Contains(goal, 1, None, start))


def contains(
    reader: Reader, part: Part, value: Json, is_wanted: bool, is_tracked: bool
) -> Branches:
    counts = part.value.get("minContains", 1), part.value.get("maxContains")
    if not is_count(counts[0]) or not (counts[1] is None or is_count(counts[1])):
        raise fail(part, "minContains and maxContains must be whole numbers, not below 0")
    least, most = counts
    goal = reader.goal(part, "contains")
    if is_wanted:
        return just(Contains(goal, least, most), seen=Seen(items=(goal,)))
    found = must("array", Contains(goal, 0, least - 1)) if least else []
    return found + (must("array", Contains(goal, most + 1, None)) if most is not None else [])


def unique_items(
    reader: Reader, part: Part, value: Json, is_wanted: bool, is_tracked: bool
) -> Branches:
    if not isinstance(value, bool):
        raise fail(part, "uniqueItems must be true or false")
    if not value:
        return ANYTHING if is_wanted else []
    if not is_wanted:
        raise Unenforceable(f"at {part.path}: the opposite of uniqueItems cannot be enforced")
    return just(Unique(part))


# --- objects ----------------------------------------------------------------------------------


def properties(
    reader: Reader, part: Part, value: Json, is_wanted: bool, is_tracked: bool
) -> Branches:
    names = list(_map(part, "properties", value))
    goals = [reader.goal(part, "properties", name, is_wanted=is_wanted) for name in names]
    pairs = list(zip(names, goals, strict=True))
    if is_wanted:
        return just(*(Property(n, g) for n, g in pairs), seen=Seen(names=frozenset(names)))
    return [b for n, g in pairs for b in must("object", Required(n), Property(n, g))]


def _map(part: Part, keyword: str, value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise fail(part, f"{keyword} must be an object")
    return value


def pattern_properties(
    reader: Reader, part: Part, value: Json, is_wanted: bool, is_tracked: bool
) -> Branches:
    sources = list(_map(part, "patternProperties", value))
    patterns = [_pattern(part, source) for source in sources]
    goals = [reader.goal(part, "patternProperties", s, is_wanted=is_wanted) for s in sources]
    pairs = [(Keys(wanted=p), g) for p, g in zip(patterns, goals, strict=True)]
    if is_wanted:
        return just(*(EveryProperty(k, g) for k, g in pairs), seen=Seen(patterns=tuple(patterns)))
    return [b for keys, goal in pairs for b in must("object", SomeProperty(keys, goal))]


def _pattern(part: Part, source: str) -> Pattern:
    try:
        return read_pattern(source)
    except GrammarError as error:
        raise fail(part, str(error)) from None


def additional_properties(
    reader: Reader, part: Part, value: Json, is_wanted: bool, is_tracked: bool
) -> Branches:
    names = frozenset(_map(part, "properties", part.value.get("properties", {})))
    sources = _map(part, "patternProperties", part.value.get("patternProperties", {}))
    keys = Keys(names, tuple(_pattern(part, source) for source in sources))
    goal = reader.goal(part, "additionalProperties", is_wanted=is_wanted)
    if is_wanted:
        return just(EveryProperty(keys, goal), seen=Seen(all_names=True))
    return must("object", SomeProperty(keys, goal))


def property_names(
    reader: Reader, part: Part, value: Json, is_wanted: bool, is_tracked: bool
) -> Branches:
    if not is_wanted:
        raise Unenforceable(f"at {part.path}: the opposite of propertyNames cannot be enforced")
    return just(Names(reader.goal(part, "propertyNames")))


def _depend(keyword: str) -> Apply:
    """With a property, either others as well or a schema."""

    def apply(
        reader: Reader, part: Part, value: Json, is_wanted: bool, is_tracked: bool
    ) -> Branches:
        found: Branches = ANYTHING if is_wanted else []
        for name, needed in _map(part, keyword, value).items():
            present = must("object", Required(name))
            if isinstance(needed, list) and keyword != "dependentSchemas":
                others = texts(part, keyword, needed)
                then = just(*map(Required, others))
                otherwise = [b for other in others for b in must("object", Absent(other))]
            else:
                goal = reader.goal(part, keyword, name)
                then = reader.branches(goal, is_tracked) if is_wanted else []
                otherwise = [] if is_wanted else reader.branches(goal.opposite())
            if is_wanted:
                found = reader.meet(found, just(Absent(name)) + reader.meet(present, then))
            else:
                found = found + reader.meet(present, otherwise)
        return reader.limited(found)

    return apply


# --- the rest ---------------------------------------------------------------------------------


def unevaluated(reader: Reader, goal: Goal, keyword: str, branches: Branches) -> Branches:
    """Like additionalProperties and items, but for what no keyword beside or below has looked at."""
    part = goal.part
    if not goal.is_wanted:
        if part.value[keyword] is True:
            return branches
        raise Unenforceable(f"at {part.path}: the opposite of {keyword} cannot be enforced")
    rest = reader.goal(part, keyword)
    found: Branches = []
    for branch in branches:
        seen = branch.seen
        fact: Fact
        if keyword == "unevaluatedProperties":
            fact = EveryProperty(Keys(seen.names, seen.patterns), rest)
            is_over, after = seen.all_names, Seen(all_names=True)
        else:
            either_ = _either(reader, part, (*seen.items, rest)) if seen.items else rest
            fact = Rest(seen.num_items, either_)
            is_over, after = seen.all_items, Seen(all_items=True)
        more = Branch() if is_over else Branch(facts=(fact,), seen=after)
        found.append(branch.meet(more))
    return found


def _either(reader: Reader, part: Part, goals: tuple[Goal, ...]) -> Goal:
    """A schema that is not in the document: one of these."""
    return Goal(reader.documents.made(part, [goal.part for goal in goals]))


def without_containers(reader: Reader, part: Part, said: Branches) -> Branches:
    """The opposite of a const that is an array or object, in terms of its parts."""
    found: Branches = []
    for branch in said:
        for fact in branch.facts:
            if isinstance(fact, Except):
                plain = tuple(v for v in fact.values if not isinstance(v, list | dict))
                branches = just(Except(plain))
                for value in fact.values:
                    if isinstance(value, list | dict):
                        schema = reader.documents.constant(part, value)
                        branches = reader.meet(branches, reader.branches(Goal(schema, False)))
                found += branches
            else:
                found.append(branch)
    return found


CONTAINING: dict[str, Apply] = {
    "prefixItems": prefix_items,
    "items": items,
    "additionalItems": additional_items,
    "contains": contains,
    "uniqueItems": unique_items,
    "properties": properties,
    "patternProperties": pattern_properties,
    "additionalProperties": additional_properties,
    "propertyNames": property_names,
    **{name: _depend(name) for name in ("dependentRequired", "dependentSchemas", "dependencies")},
}
