"""Whether a value fits a schema, and whether any value can: decided before rules are written."""

from collections.abc import Hashable
from fractions import Fraction

from segue.engine.constraints.schemas import shapes
from segue.engine.constraints.schemas.facts import (
    Absent,
    Branch,
    Branches,
    Contains,
    Count,
    EveryProperty,
    Except,
    Fact,
    Goal,
    Goals,
    Item,
    Names,
    Only,
    Property,
    Reader,
    Required,
    Rest,
    Size,
    SomeProperty,
    Unique,
)
from segue.engine.constraints.schemas.values import Json, key_of, type_of

Keys = frozenset[Hashable]  # of values


def meets(value: Json, goals: Goals, reader: Reader) -> bool:
    return all(
        any(fits(value, branch, reader) for branch in reader.branches(goal)) for goal in goals
    )


def fits(value: Json, branch: Branch, reader: Reader) -> bool:
    kind = type_of(value)
    if kind not in branch.types:
        return False
    facts = tuple(f for f in branch.facts if f.of in ("", kind))
    key = key_of(value)
    for fact in facts:
        if isinstance(fact, Only | Except) and (key in fact.keys) != isinstance(fact, Only):
            return False
    match kind:
        case "number":
            return shapes.numbers_of(facts).holds(Fraction(value))
        case "string":
            return shapes.strings_of(facts).holds_text(value)
        case "array":
            return all(_holds_of_array(value, fact, reader) for fact in facts)
        case "object":
            return all(_holds_of_object(value, fact, reader) for fact in facts)
    return True


def _holds_of_array(value: list[Json], fact: Fact, reader: Reader) -> bool:
    match fact:
        case Item(index, goal):
            return index >= len(value) or meets(value[index], (goal,), reader)
        case Rest(start, goal):
            return all(meets(item, (goal,), reader) for item in value[start:])
        case Size(least, most):
            return least <= len(value) and (most is None or len(value) <= most)
        case Contains(goal, least, most, start):
            num = sum(meets(item, (goal,), reader) for item in value[start:])
            return least <= num and (most is None or num <= most)
        case Unique():
            return len({key_of(item) for item in value}) == len(value)
    return True


def _holds_of_object(value: dict[str, Json], fact: Fact, reader: Reader) -> bool:
    match fact:
        case Property(name, goal):
            return name not in value or meets(value[name], (goal,), reader)
        case Required(name):
            return name in value
        case Absent(name):
            return name not in value
        case EveryProperty(keys, goal):
            items = [v for n, v in value.items() if shapes.is_among(n, keys)]
            return all(meets(item, (goal,), reader) for item in items)
        case SomeProperty(keys, goal):
            items = [v for n, v in value.items() if shapes.is_among(n, keys)]
            return any(meets(item, (goal,), reader) for item in items)
        case Names(goal):
            return all(meets(name, (goal,), reader) for name in value)
        case Count(least, most):
            return least <= len(value) and (most is None or len(value) <= most)
    return True


def only(branch: Branch, reader: Reader) -> list[Json] | None:
    """The values that fit, if the schema lists them."""
    lists = [f.values for f in branch.facts if isinstance(f, Only)]
    if not lists:
        return None
    return [value for value in min(lists, key=len) if fits(value, branch, reader)]


def is_void(branch: Branch, reader: Reader, depth: int) -> bool:
    """Whether no value can meet it, as far as that is easy to see."""
    values = only(branch, reader)
    if values is not None:
        return not values
    return all(_is_void_type(branch, kind, reader, depth) for kind in branch.types)


def _is_void_type(branch: Branch, kind: str, reader: Reader, depth: int) -> bool:
    facts = tuple(f for f in branch.facts if f.of in ("", kind))
    match kind:
        case "number":
            return shapes.numbers_of(facts).few() == []
        case "string":
            return shapes.strings_of(facts).is_void
        case "array":
            arrays = shapes.arrays_of(facts)
            if arrays.most is not None and arrays.least > arrays.most:
                return True
            first = [arrays.at(i) for i in range(min(arrays.least, len(arrays.items) + 1))]
            return any(are_void(goals, reader, depth - 1) for goals in first)
        case "object":
            required = {f.name for f in facts if isinstance(f, Required)}
            absent = {f.name for f in facts if isinstance(f, Absent)}
            if required & absent:
                return True
            needed = shapes.goals_by_name(sorted(required), facts).values()
            return any(are_void(goals, reader, depth - 1) for goals in needed)
    return False


def are_void(goals: Goals, reader: Reader, depth: int) -> bool:
    if depth <= 0:
        return False
    return all(is_void(branch, reader, depth) for branch in reader.together(goals))


# --- which options cannot meet --------------------------------------------------------------------


def are_told_apart(options: list[Branches]) -> bool:
    """Whether each lists values that no other has: its own, or those of a property that it requires."""
    marks = [_marks(option) for option in options]
    for name in set.intersection(*map(set, marks)):
        listed = [each[name] for each in marks]
        if sum(map(len, listed)) == len(frozenset().union(*listed)):
            return True
    return False


def _marks(option: Branches) -> dict[str | None, Keys]:
    found = [_marks_of(branch) for branch in option]
    names = set.intersection(*map(set, found)) if found else set()
    return {name: frozenset().union(*(each[name] for each in found)) for name in names}


def _marks_of(branch: Branch) -> dict[str | None, Keys]:
    """The values that are listed for it, under None, or for its properties, under their names."""
    for fact in branch.facts:
        if isinstance(fact, Only):
            return {None: fact.keys}
    if branch.types != {"object"}:
        return {}
    required = {f.name for f in branch.facts if isinstance(f, Required)}
    properties = (f for f in branch.facts if isinstance(f, Property) and f.name in required)
    return {f.name: keys for f in properties if (keys := _listed(f.goal))}


def _listed(goal: Goal) -> Keys:
    schema = goal.part.value
    if not goal.is_wanted or not isinstance(schema, dict):
        return frozenset()
    if "$ref" in schema and goal.part.is_old:  # which hides the others
        return frozenset()
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return frozenset(map(key_of, values)) if isinstance(values, list) else frozenset()
