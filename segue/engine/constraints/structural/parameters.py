"""The parameters of a function as models write them between tags: strings as they are, everything else as JSON."""

import string
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from segue.engine.constraints.grammar import (
    EMPTY,
    Chars,
    Either,
    Free,
    Literal,
    Node,
    Pieces,
    Repeat,
    char_set,
    either,
)
from segue.engine.constraints.lark_text import ANY_TEXT, quoted
from segue.engine.constraints.scalars.pattern import read_pattern
from segue.engine.constraints.schemas.arguments import Arguments, Object
from segue.engine.constraints.schemas.facts import Goals
from segue.engine.constraints.schemas.keywords.assertions import Unenforceable
from segue.engine.constraints.schemas.options import MAX_ANY_ORDER, slashed
from segue.engine.constraints.schemas.values import TYPES
from segue.engine.constraints.structural.joining import one_after_another

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


@dataclass(frozen=True)
class Style:
    before: str  # the name
    mark: str  # right after the name, which must not hold it
    tells: Mapping[str, str] = field(default_factory=dict)  # after the mark, by the value's type
    opens: str = ""  # the value, after a space maybe
    closes: str = "</parameter>"
    escapes: tuple[tuple[str, str], ...] = ()  # in names

    @property
    def tells_strings(self) -> bool:
        return len(set(self.tells.values())) > 1


def _each(string: str, others: str) -> dict[str, str]:
    return {kind: string if kind == "string" else others for kind in TYPES}


def _dsml(space: str) -> Style:
    return Style(
        f'<｜DSML｜{space}parameter name="',
        '"',
        _each(' string="true">', ' string="false">'),
        closes=f"</｜DSML｜{space}parameter>",
    )


STYLES = {
    "qwen_xml": Style("<parameter=", ">"),
    "minimax_xml": Style('<parameter name="', '"', _each(">", ">")),
    "deepseek_xml": _dsml(""),
    "deepseek_v4_1_xml": _dsml(" "),
    "glm_xml": Style("<arg_key>", "</arg_key>", opens="<arg_value>", closes="</arg_value>"),
    "kimi_k3_xml": Style(
        '<|open|>argument key="',
        '"',
        {kind: f' type="{kind}"<|sep|>' for kind in TYPES},
        closes="<|close|>argument<|sep|>",
        escapes=(("&", "&amp;"), ('"', "&quot;")),
    ),
}


def parameters(style: Style, arguments: Arguments, maker: Maker) -> Node:
    """Those that fit the schema, in its order, with or without space between them. Raises GrammarError."""
    kinds = enumerate(arguments.objects())
    return either(*(_Writer(style, arguments, maker, f"{i}").object(own) for i, own in kinds))


class _Writer:
    """Writes one kind of object. Its parts are marked: what follows them elsewhere can be something else."""

    def __init__(self, style: Style, arguments: Arguments, maker: Maker, kind: str) -> None:
        self._style = style
        self._arguments = arguments
        self._maker = maker
        self._mark = f"{maker.place} {kind}"
        spaces = arguments.whitespace
        self._space: Node = EMPTY
        if spaces is not None:
            self._space = Repeat(read_pattern(f"^(?:{spaces})$").holds[0], 0, 1)

    def object(self, own: Object) -> Node:
        named = [
            (self._parameter(self._name(name), member.goals), member.is_required)
            for name, member in own.named.items()
        ]
        others: Node = EMPTY
        if own.others is not None:
            other = self._parameter(_identifier(own.named), own.others)
            others = Repeat(self._maker.rule(Pieces((other,))), 0, None)
        is_any_order = self._arguments.any_order and len(named) <= MAX_ANY_ORDER
        whole = (self._any_order if is_any_order else self._in_order)(named, others)
        return one_after_another(whole, self._space)

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

    def _name(self, name: str) -> Node:
        for plain, escaped in self._style.escapes:
            name = name.replace(plain, escaped)
        if self._style.mark in name:
            raise Unenforceable(f"the name {name!r} holds {self._style.mark!r}, which would end it")
        return Literal(name) if name else EMPTY

    def _parameter(self, name: Node, goals: Goals) -> Node:
        """With the space before it. For each thing that is told of a value's type, the values of such types."""
        style = self._style
        told: dict[str, list[str]] = {}
        for kind in sorted(self._arguments.types(goals), key=TYPES.index):
            told.setdefault(style.tells.get(kind, ""), []).append(kind)
        # In each option, not before all: so a name is one piece with what ends it, and can be told from a longer one.
        options = [
            one_after_another(
                self._space,
                Literal(style.before, self._mark),
                name,
                Literal(style.mark + tells),
                self._opened(self._value(goals, kinds)),
            )
            for tells, kinds in told.items()
        ]
        return either(*options)

    def _opened(self, value: Node) -> Node:
        opens = self._style.opens
        return one_after_another(self._space, Literal(opens), value) if opens else value

    def _value(self, goals: Goals, kinds: Collection[str]) -> Node:
        """With what closes it."""
        closes, arguments = self._style.closes, self._arguments
        others = [kind for kind in kinds if kind != "string"]
        if "string" not in kinds:
            return self._spaced(self._json(goals, others))
        texts = arguments.texts(goals)
        if texts.are_all:  # which a text of any other type is too
            any_text = arguments.but_excluded(ANY_TEXT)
            like = any_text if any_text != ANY_TEXT else ""
            return Free((closes,), closes, like=like, place=self._maker.place)
        if _CONTAINERS & set(others):
            if texts.terminals:
                raise Unenforceable(
                    "in this style a string with conditions cannot be told from an array or object"
                )
            return self._spaced(*map(Literal, texts.listed), self._json(goals, others))
        scalars = arguments.scalars(goals) if others else []
        terminals = [*map(quoted, texts.listed), *texts.terminals, *scalars]
        if not terminals:
            return Either(())
        like = self._terminal(terminals)
        return Free((closes,), closes, like=like, place=self._maker.place)

    def _json(self, goals: Goals, kinds: Collection[str]) -> Node:
        text = self._arguments.json(goals, frozenset(kinds)) if kinds else None
        return Either(()) if text is None else self._maker.json(text, kinds, self._mark)

    def _spaced(self, *options: Node) -> Node:
        closes = Literal(self._style.closes, self._mark)
        return one_after_another(self._space, either(*options), self._space, closes)

    def _terminal(self, terminals: Iterable[str]) -> str:
        """Any of these. Where it is told that a string comes, space around it is part of it."""
        values = " | ".join(f"({terminal})" for terminal in terminals)
        spaces = self._arguments.whitespace
        if spaces is None or self._style.tells_strings:
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
