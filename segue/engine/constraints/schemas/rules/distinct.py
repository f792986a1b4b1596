"""Arrays whose items are all different (`uniqueItems`), where the schema lists the values that they may have.

A rule for each set of values that an array may have had so far: so many are written that longer lists are refused.
"""

from collections import deque
from collections.abc import Hashable

from segue.engine.constraints.grammar import EMPTY, Either, Node, seq
from segue.engine.constraints.schemas import judge
from segue.engine.constraints.schemas.facts import Branch, Goals, Reader, Writer
from segue.engine.constraints.schemas.shapes import Arrays
from segue.engine.constraints.schemas.values import Json, key_of

MAX_SETS = 1024  # ten values in any order, or two of forty-four
_FEW: dict[str, list[Json]] = {"null": [None], "boolean": [True, False]}  # types with few values

Taken = frozenset[Hashable]  # the keys of values


class Distinct:
    """The arrays of a schema, item after item."""

    def __init__(self, arrays: Arrays, reader: Reader) -> None:
        self._arrays = arrays
        # By place, the last for all that follow; None: any value may stand there.
        self._listed = [_listed(arrays.at(index), reader) for index in range(len(arrays.items) + 1)]

    def rule(self, writer: Writer) -> Node | None:
        """The rule for what is between the brackets; None if the values are not listed, or are too many."""
        if None in self._listed or self._arrays.contains:
            return None
        sets = self._sets()
        if sets is None:
            return None
        places = {taken: writer.rule(EMPTY) for taken in sets}
        for taken, place in places.items():
            options: list[Node] = [EMPTY] if len(taken) >= self._arrays.least else []
            for key, value in self._next(taken).items():
                if writer.options.is_excluded(value):
                    continue
                comma = (writer.spaces.comma,) if taken else ()
                options.append(seq(*comma, writer.constant(value), places[taken | {key}]))
            writer.define(place, Either(tuple(options)))
        return places[frozenset()]

    def _sets(self) -> list[Taken] | None:
        """Which values an array may have had, at each of its items. None if there are too many such sets."""
        found: dict[Taken, None] = {frozenset(): None}
        waiting = deque(found)
        while waiting:
            taken = waiting.popleft()
            more = [taken | {key} for key in self._next(taken)]
            new = [each for each in more if each not in found]
            found |= dict.fromkeys(new)
            waiting += new
            if len(found) > MAX_SETS:
                return None
        return list(found)

    def _next(self, taken: Taken) -> dict[Hashable, Json]:
        """The values that may follow."""
        index = len(taken)
        if self._arrays.most is not None and index >= self._arrays.most:
            return {}
        values = self._listed[min(index, len(self._listed) - 1)] or {}
        return {key: value for key, value in values.items() if key not in taken}


def _listed(goals: Goals, reader: Reader) -> dict[Hashable, Json] | None:
    """The values that meet the goals, if the schema lists them."""
    found: dict[Hashable, Json] = {}
    for branch in reader.together(goals):
        values = _values(branch, reader)
        if values is None:
            return None
        found.update({key_of(value): value for value in values})
    return found


def _values(branch: Branch, reader: Reader) -> list[Json] | None:
    if branch.types <= _FEW.keys():
        few = [value for kind in _FEW for value in _FEW[kind]]
        return [value for value in few if judge.fits(value, branch, reader)]
    return judge.only(branch, reader)
