"""Keywords that combine schemas."""

from dataclasses import replace
from itertools import combinations, product

from segue.engine.constraints.schemas.documents import Part
from segue.engine.constraints.schemas.facts import (
    ANYTHING,
    UNSEEN,
    Apply,
    Branches,
    Goal,
    Reader,
)
from segue.engine.constraints.schemas.judge import are_told_apart
from segue.engine.constraints.schemas.keywords.assertions import Unenforceable, fail
from segue.engine.constraints.schemas.values import Json


def reference(
    reader: Reader, part: Part, value: Json, is_wanted: bool, is_tracked: bool
) -> Branches:
    return reader.branches(Goal(reader.documents.target(part, value), is_wanted), is_tracked)


def _options(reader: Reader, part: Part, keyword: str, value: Json) -> list[Goal]:
    if not isinstance(value, list):
        raise fail(part, f"{keyword} must be a list")
    if not value:
        raise fail(part, f"{keyword} is an empty list")
    return [reader.goal(part, keyword, i) for i in range(len(value))]


def all_of(reader: Reader, part: Part, value: Json, is_wanted: bool, is_tracked: bool) -> Branches:
    goals = _options(reader, part, "allOf", value)
    if is_wanted:
        return reader.together(goals, is_tracked)
    return reader.limited([b for goal in goals for b in reader.branches(goal.opposite())])


def any_of(reader: Reader, part: Part, value: Json, is_wanted: bool, is_tracked: bool) -> Branches:
    goals = _options(reader, part, "anyOf", value)
    if not is_wanted:
        return reader.together([goal.opposite() for goal in goals], False)
    if not is_tracked:
        return reader.limited([b for goal in goals for b in reader.branches(goal)])
    # Whatever fits has been looked at, so which of them fit must be known.
    reader.spend(len(goals) << len(goals))
    cases = product(*((goal, goal.opposite()) for goal in goals))
    return reader.limited(
        [b for case in cases if any(g.is_wanted for g in case) for b in reader.together(case, True)]
    )


def one_of(reader: Reader, part: Part, value: Json, is_wanted: bool, is_tracked: bool) -> Branches:
    goals = _options(reader, part, "oneOf", value)
    if is_wanted:
        options = [reader.branches(goal, is_tracked) for goal in goals]
        is_apart = are_told_apart(options)  # most are, and comparing all would take long
        if reader.one_of_is_any_of and not is_apart:
            is_apart = True
            if not all(reader.are_apart(one, other) for one, other in combinations(options, 2)):
                reader.ignore("oneOf", part)
        if is_apart:
            return reader.limited([branch for option in options for branch in option])
    found: Branches = []
    for i, goal in enumerate(goals):
        others = [other for j, other in enumerate(goals) if j != i]
        if is_wanted:
            found += _alone(reader, part, goal, others, is_tracked)
        else:  # two of them
            found += [b for other in goals[i + 1 :] for b in reader.together([goal, other], False)]
    if not is_wanted:  # or none
        found += reader.together([goal.opposite() for goal in goals], False)
    return reader.limited(found)


def _alone(
    reader: Reader, part: Part, goal: Goal, others: list[Goal], is_tracked: bool
) -> Branches:
    """The values that meet one goal and none of the others."""
    found = reader.branches(goal, is_tracked)
    for other in others:
        reader.spend(2)
        if reader.are_apart(found, reader.branches(other)):
            continue
        try:
            found = reader.meet(found, reader.branches(other.opposite()))
        except Unenforceable as error:
            raise Unenforceable(
                f"at {part.path}: two options of oneOf may match the same value, and their "
                f"difference cannot be enforced ({error})"
            ) from None
    return found


def negated(reader: Reader, part: Part, value: Json, is_wanted: bool, is_tracked: bool) -> Branches:
    said = reader.branches(reader.goal(part, "not", is_wanted=not is_wanted))
    return [replace(branch, seen=UNSEEN) for branch in said]  # what it looked at does not count


def condition(
    reader: Reader, part: Part, value: Json, is_wanted: bool, is_tracked: bool
) -> Branches:
    found: Branches = []
    for is_met, keyword in ((True, "then"), (False, "else")):
        before = reader.branches(reader.goal(part, "if", is_wanted=is_met), is_tracked and is_met)
        if keyword in part.value:
            after = reader.branches(
                reader.goal(part, keyword, is_wanted=is_wanted), is_tracked and is_wanted
            )
        else:
            after = ANYTHING if is_wanted else []
        found += reader.meet(before, after)
    return reader.limited(found)


COMBINING: dict[str, Apply] = {
    "$ref": reference,
    "allOf": all_of,
    "anyOf": any_of,
    "oneOf": one_of,
    "not": negated,
    "if": condition,
}
