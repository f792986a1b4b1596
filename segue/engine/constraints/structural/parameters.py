"""The parameters of a function as models write them between tags: strings as they are, everything else as JSON."""

import string
from collections.abc import Collection, Iterable
from typing import Protocol

from segue.engine.constraints.grammar import (
    EMPTY,
    Chars,
    Either,
    Free,
    Literal,
    Node,
    Pieces,
    Ref,
    Repeat,
    char_set,
    either,
)
from segue.engine.constraints.lark_text import ANY_TEXT, quoted
from segue.engine.constraints.scalars.pattern import read_pattern
from segue.engine.constraints.schemas.arguments import Arguments, Object
from segue.engine.constraints.schemas.facts import Goal, Goals
from segue.engine.constraints.schemas.keywords.assertions import ENDLESS, Unenforceable
from segue.engine.constraints.schemas.options import MAX_ANY_ORDER, slashed
from segue.engine.constraints.schemas.shapes import Arrays
from segue.engine.constraints.schemas.values import TYPES
from segue.engine.constraints.structural.joining import literal, one_after_another
from segue.engine.constraints.structural.styles import Style

_CONTAINERS = frozenset({"array", "object"})


class Maker(Protocol):
    """Makes rules."""

    @property
    def place(self) -> str:
        """For errors."""
        ...

    def json(self, text: str, kinds: Collection[str], mark: str) -> Node:
        """For values of these types, as Lark text."""
        ...

    def rule(self, body: Node) -> Node: ...

    def new(self) -> Ref:
        """A rule that is defined later: it may lead back to itself."""
        ...

    def define(self, place: Ref, body: Node) -> None: ...


def parameters(style: Style, arguments: Arguments, maker: Maker) -> Node:
    """Those that fit the schema, in its order, with or without space between them. Raises GrammarError."""
    return _Parameters(style, arguments, maker).all()


class _Parameters:
    """All that is written for one schema."""

    def __init__(self, style: Style, arguments: Arguments, maker: Maker) -> None:
        self.style = style
        self.arguments = arguments
        self.maker = maker
        spaces = arguments.whitespace
        self.space: Node = EMPTY
        if spaces is not None:
            self.space = Repeat(read_pattern(f"^(?:{spaces})$").holds[0], 0, 1)
        self._within: dict[tuple[frozenset[Goal], str], Ref] = {}
        # A loop works them off, since schemas can refer to others for long.
        self._todo: list[tuple[Ref, Goals, str]] = []
        self._num_marks = 0

    def all(self) -> Node:
        kinds = map(self._object, self.arguments.objects())
        whole = either(*(one_after_another(kind, self.space) for kind in kinds))
        while self._todo:
            place, goals, kind = self._todo.pop()
            self.maker.define(place, Pieces((either(*self._options(goals, kind)),)))
        return whole

    def within(self, goals: Goals, kind: str) -> Node:
        """The rule of an array or object that is written as its own items or properties are."""
        key = frozenset(goals), kind
        if key not in self._within:
            self._within[key] = place = self.maker.new()
            self._todo.append((place, goals, kind))
        return self._within[key]

    def _options(self, goals: Goals, kind: str) -> list[Node]:
        if kind == "object":
            return [self._object(own) for own in self.arguments.objects(goals)]
        return [self.writer().array(own) for own in self.arguments.arrays(goals)]

    def _object(self, own: Object) -> Node:
        return self.writer().object(own)

    def writer(self) -> "_Writer":
        self._num_marks += 1
        return _Writer(self, f"{self.maker.place} {self._num_marks}")


class _Writer:
    """Writes one object or array. Its parts are marked: what follows them elsewhere can be something else."""

    def __init__(self, whole: _Parameters, mark: str) -> None:
        self._whole = whole
        self._style = whole.style
        self._arguments = whole.arguments
        self._maker = whole.maker
        self._space = whole.space
        self._mark = mark

    def object(self, own: Object) -> Node:
        named = [
            (self._named(name, member.goals), member.is_required)
            for name, member in own.named.items()
        ]
        others: Node = EMPTY
        if own.others is not None and not self._style.named_end:  # there it must be known
            other = self._property(_identifier(own.named), self._style.closes, own.others)
            others = Repeat(self._maker.rule(Pieces((other,))), 0, None)
        # Where any object may stand in another, a name that follows it could be one of its own.
        is_clear = not self._style.item or others == EMPTY
        is_any_order = self._arguments.any_order and len(named) <= MAX_ANY_ORDER and is_clear
        return (self._any_order if is_any_order else self._in_order)(named, others)

    def array(self, own: Arrays) -> Node:
        """Items, with the space before each that properties have."""
        most = None if own.most is None else min(own.most, ENDLESS)
        num = len(own.items) if most is None else min(len(own.items), most)
        inner: Node = EMPTY
        if most is None or most > num:
            rest = self._maker.rule(Pieces((self.item(own.rest),)))
            inner = Repeat(rest, max(0, own.least - num), None if most is None else most - num)
        for index in reversed(range(num)):
            item = self._whole.writer().item(own.items[index])  # marked by itself: it has no name
            inner = self._maker.rule(Pieces((item, inner)))
            if index >= own.least:
                inner = Repeat(inner, 0, 1)
        return inner

    def item(self, goals: Goals) -> Node:
        return self._element(EMPTY, self._style.item, self._style.end("item"), goals)

    def _in_order(self, named: list[tuple[Node, bool]], others: Node) -> Node:
        found = [one if is_required else Repeat(one, 0, 1) for one, is_required in named]
        return self._maker.rule(Pieces((*found, others)))

    def _any_order(self, named: list[tuple[Node, bool]], others: Node) -> Node:
        """By which there are already."""
        needed = sum(1 << i for i, (_, is_required) in enumerate(named) if is_required)
        after: dict[int, Node] = {}
        for have in reversed(range(1 << len(named))):  # those that follow are known
            missing = [(i, one) for i, (one, _) in enumerate(named) if not have >> i & 1]
            more: list[Node] = [
                self._maker.rule(Pieces((one, after[have | 1 << i]))) for i, one in missing
            ]
            end = [EMPTY] if needed & ~have == 0 else []
            after[have] = self._maker.rule(Pieces((others, Either((*end, *more)))))
        return after[0]

    def _named(self, name: str, goals: Goals) -> Node:
        name = self._style.escaped(name)
        if self._style.mark in name:
            raise Unenforceable(f"the name {name!r} holds {self._style.mark!r}, which would end it")
        return self._property(literal(name), self._style.end(name), goals)

    def _property(self, name: Node, closes: str, goals: Goals) -> Node:
        return self._element(
            one_after_another(name, Literal(self._style.mark)), self._style.before, closes, goals
        )

    def _element(self, name: Node, before: str, closes: str, goals: Goals) -> Node:
        """For each thing that is told of a value's type, the values of such types."""
        told: dict[str, list[str]] = {}
        for kind in sorted(self._arguments.types(goals), key=TYPES.index):
            told.setdefault(self._style.tells.get(kind, ""), []).append(kind)
        is_spaced = before == self._style.before or self._style.spaces_items
        # In each option, not before all: so a name is one piece with what ends it, and can be told from a longer one.
        options = [
            one_after_another(
                self._space if is_spaced else EMPTY,
                Literal(before, self._mark),
                name,
                literal(tells),
                self._opened(self._value(goals, kinds, closes)),
            )
            for tells, kinds in told.items()
        ]
        return either(*options)

    def _opened(self, value: Node) -> Node:
        opens = self._style.opens
        return one_after_another(self._space, Literal(opens), value) if opens else value

    def _value(self, goals: Goals, kinds: Collection[str], closes: str) -> Node:
        """With what closes it."""
        containers = [kind for kind in kinds if kind in _CONTAINERS]
        if containers and self._style.item:
            if len(containers) < len(kinds):
                raise Unenforceable("in this style an array or object cannot be told from a value")
            options = [self._whole.within(goals, kind) for kind in containers]
            return one_after_another(either(*options), self._space, Literal(closes, self._mark))
        others = [kind for kind in kinds if kind != "string"]
        if "string" not in kinds and not self._style.named_end:
            return self._spaced(closes, self._json(goals, others))
        texts = self._arguments.texts(goals)
        if texts.are_all:  # which a text of any other type is too
            return self._free(closes, "")
        if not containers:
            scalars = self._arguments.scalars(goals) if others else []
            terminals = [*map(quoted, texts.listed), *texts.terminals, *scalars]
            return self._free(closes, self._terminal(terminals)) if terminals else Either(())
        if texts.terminals:
            raise Unenforceable(
                "in this style a string with conditions cannot be told from an array or object"
            )
        listed = [literal(text) for text in texts.listed if closes not in text]
        return self._spaced(closes, *listed, self._json(goals, others))

    def _free(self, closes: str, like: str) -> Node:
        """Text like this, or any without what is excluded, and without what begins every end."""
        like = like or self._arguments.but_excluded(ANY_TEXT)
        if self._style.named_end:
            like = f"({like}) & ~({ANY_TEXT} {quoted(self._style.closes)} {ANY_TEXT})"
        like = "" if like == ANY_TEXT else like
        return Free((closes,), closes, like=like, place=self._maker.place)

    def _json(self, goals: Goals, kinds: Collection[str]) -> Node:
        text = self._arguments.json(goals, frozenset(kinds)) if kinds else None
        return Either(()) if text is None else self._maker.json(text, kinds, self._mark)

    def _spaced(self, closes: str, *options: Node) -> Node:
        end = Literal(closes, self._mark)
        return one_after_another(self._space, either(*options), self._space, end)

    def _terminal(self, terminals: Iterable[str]) -> str:
        """Any of these. Where it is told that a string comes, space around it is part of it."""
        values = " | ".join(f"({terminal})" for terminal in terminals)
        spaces = self._arguments.whitespace
        if spaces is None or self._style.tells_strings or self._style.named_end:
            return values
        space = f"/(?:{slashed(spaces)})?/"
        return f"{space} ({values}) {space}"


# --- names that are not listed --------------------------------------------------------------------

_MAX_NAME = 100
_FIRST = string.ascii_letters + "_"
_LATER = _FIRST + string.digits


def _identifier(taken: Iterable[str]) -> Node:
    """A letter or underscore, then digits too; none of those that are taken. Raises GrammarError."""
    names = frozenset(taken)
    if max(map(len, names), default=0) > _MAX_NAME:
        raise Unenforceable(
            f"beside names that are free, a name may have at most {_MAX_NAME} characters in this style"
        )
    return _but_not(names, _FIRST)


def _but_not(taken: frozenset[str], letters: str) -> Node:
    heads = sorted({name[0] for name in taken if name and name[0] in letters})
    options: list[Node] = [
        one_after_another(
            Literal(head), _but_not(frozenset(n[1:] for n in taken if n[:1] == head), _LATER)
        )
        for head in heads
    ]
    others = [letter for letter in letters if letter not in heads]
    if others:
        options.append(one_after_another(_one_of(others), Repeat(_one_of(_LATER), 0, None)))
    if letters is _LATER and "" not in taken:
        options.append(EMPTY)
    return either(*options)


def _one_of(letters: Iterable[str]) -> Node:
    return Chars(char_set([(ord(letter), ord(letter)) for letter in letters]))
