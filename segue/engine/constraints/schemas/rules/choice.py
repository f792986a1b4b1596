"""Choices of many options, written so that a parser has few places in mind."""

from collections.abc import Callable, Iterable
from itertools import chain, takewhile

from segue.engine.constraints.grammar import Either, Node, either, parts, seq

FEW = 4  # options beside each other
_MAX_DEPTH = 8  # of choices within choices


class Choice:
    """One that gets option after option, and is written after each.

    It shares rules for groups of options with the choices that it was: so all of them together stay short, and yet none
    leads to an option by way of many others.
    """

    def __init__(self, rule: Callable[[Node], Node]) -> None:
        """`rule`: makes one, and gives what refers to it."""
        self._rule = rule
        # The options, then rules for FEW of them, then rules for FEW of those ...
        self._levels: list[list[Node]] = []

    def __bool__(self) -> bool:
        return bool(self._levels)

    def clear(self) -> None:
        self._levels = []

    def add(self, option: Node) -> None:
        """Before the others."""
        for level in self._levels:
            if len(level) < FEW:
                level.insert(0, option)
                return
            group = self._rule(Either(tuple(level)))
            level[:] = [option]
            option = group
        self._levels.append([option])

    @property
    def node(self) -> Node:
        return either(*chain.from_iterable(self._levels))


def factored(options: Iterable[Node]) -> Node:
    """The choice of them, where those that begin alike are one up to where they differ."""
    return _choice([tuple(parts(option)) for option in options], _MAX_DEPTH)


def _choice(options: list[tuple[Node, ...]], depth: int) -> Node:
    if depth == 0:
        return either(*(seq(*option) for option in options))
    alike: dict[tuple[Node, ...], list[tuple[Node, ...]]] = {}  # by the part that they begin with
    for option in options:
        alike.setdefault(option[:1], []).append(option)
    return either(*(_together(group, depth) for group in alike.values()))


def _together(group: list[tuple[Node, ...]], depth: int) -> Node:
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*group, strict=False))
    common = [column[0] for column in columns]
    if len(group) == 1:
        return seq(*common)
    return seq(*common, _choice([option[len(common) :] for option in group], depth - 1))
