"""A grammar after some text: what may still come, as the parser of llama.cpp keeps it in mind.

That is a set of stacks, each a sequence of parts that are still to come, the next one first. Sets have numbers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from segue.engine.constraints.grammar import (
    EMPTY,
    Chars,
    Either,
    GrammarError,
    Literal,
    Node,
    Range,
    Ref,
    Repeat,
    Rules,
    Seq,
    Terminal,
    Tokens,
    either,
    seq,
)
from segue.engine.constraints.lark_text import SOME_TEXT, quoted
from segue.engine.constraints.scalars import oracle

MAX_SETS = 2000
MAX_STACKS = 200  # in one set
MAX_PARTS = 2000  # looked at for one character


@dataclass(frozen=True)
class Begun:
    """A terminal of which this text was read, and that goes on."""

    terminal: str
    read: str


Part = Node | Begun
Stack = tuple[Part, ...]
Stacks = frozenset[Stack]
Leaf = Chars | Literal | Tokens | Begun
Opened = tuple[Leaf | None, Stack]  # what comes next and what after it; None: nothing needs to


class Followed:
    """Raises GrammarError where too much of the grammar would have to be kept in mind."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._has_tokens = any(isinstance(body, Tokens) for body in rules.values())
        self._sets: list[Stacks] = []
        self._numbers: dict[Stacks, int] = {}
        self._next: dict[tuple[int, str], int] = {}
        self._found: dict[int, list[tuple[Leaf, Stack]]] = {}
        self.lost = self._number(())  # where the text fits no more
        self.start = self._number([(Ref("root"),)])
        self._seen = 0

    def ranges(self, number: int) -> list[Range]:
        """What decides which character leads where: all characters of a range lead to the same."""
        return [r for leaf, _ in self._leaves(number) for r in _ranges(leaf)]

    def has_terminals(self, number: int) -> bool:
        """Whether each character may lead elsewhere."""
        return any(isinstance(leaf, Begun) for leaf, _ in self._leaves(number))

    def tokens(self, number: int) -> list[Range]:
        """Those that may be meant by themselves."""
        leaves = self._leaves(number) if self._has_tokens else ()
        return [ids for leaf, _ in leaves if isinstance(leaf, Tokens) for ids in leaf.ids]

    def after(self, number: int, c: str) -> int:
        """After one more character of a text, of which it is not known what tokens it is."""
        if any(isinstance(leaf, Tokens) and leaf.is_any for leaf, _ in self._leaves(number)):
            raise GrammarError("a trigger reads on where the grammar means any token")
        return self.spelled(number, c)

    def spelled(self, number: int, c: str) -> int:
        """The same within a token that is known."""
        if (number, c) not in self._next:
            found = {rest for leaf, after in self._leaves(number) for rest in _read(leaf, after, c)}
            self._next[number, c] = self._number(found)
        return self._next[number, c]

    def after_token(self, number: int, token: int, text: str | None) -> int:
        """After one that may be meant by itself, or by its text if it is any."""
        named = {after for leaf, after in self._leaves(number) if _is_among(leaf, token)}
        spelled = number if text else self.lost
        for c in text or "":
            spelled = self.spelled(spelled, c)
        return self._number(self._sets[spelled] | named)

    def rest(self, number: int) -> Node:
        """What may still come."""
        stacks = sorted(self._sets[number], key=repr)
        if any(isinstance(part, Begun) for stack in stacks for part in stack):
            raise GrammarError(
                "the trigger ends within a name or a value of the schema; it must end before it or behind it"
            )
        return either(*(seq(*_nodes(stack)) if stack else EMPTY for stack in stacks))

    # --- stacks -------------------------------------------------------------------------------------

    def _number(self, found: Iterable[Stack]) -> int:
        stacks = frozenset(tuple(_plain(stack)) for stack in found)
        if stacks not in self._numbers:
            if len(stacks) > MAX_STACKS or len(self._sets) >= MAX_SETS:
                raise GrammarError("the grammar has too many ways to go on where the trigger ends")
            self._numbers[stacks] = len(self._sets)
            self._sets.append(stacks)
        return self._numbers[stacks]

    def _leaves(self, number: int) -> list[tuple[Leaf, Stack]]:
        """What may come next, each with what comes after it."""
        if number not in self._found:
            self._seen = 0
            opened = (o for stack in self._sets[number] for o in self._opened(stack, frozenset()))
            self._found[number] = [(leaf, rest) for leaf, rest in opened if leaf is not None]
        return self._found[number]

    def _opened(self, stack: Stack, within: frozenset[str]) -> Iterator[Opened]:
        """The ways to go on. `within`: rules that nothing was read of yet."""
        self._seen += 1
        if self._seen > MAX_PARTS:
            raise GrammarError("the grammar has too many ways to go on where the trigger ends")
        if not stack:
            yield None, ()
            return
        for leaf, rest in self._ways(stack[0], within):
            if leaf is None:
                yield from self._opened(stack[1:], within)
            else:
                yield leaf, rest + stack[1:]

    def _ways(self, part: Part, within: frozenset[str]) -> Iterator[Opened]:
        match part:
            case Ref(name):
                if name in within:
                    raise GrammarError(
                        f"the rule {name} leads to itself from the left: such a grammar cannot be lazy"
                    )
                yield from self._ways(self._rules[name], within | {name})
            case Seq(items):
                yield from self._opened(items, within)
            case Either(options):
                for option in options:
                    yield from self._ways(option, within)
            case Repeat(item, least, most):
                if most != 0:
                    fewer = Repeat(item, max(least - 1, 0), None if most is None else most - 1)
                    for leaf, rest in self._ways(item, within):
                        if leaf is not None:
                            yield leaf, (*rest, fewer)
                        elif least:
                            yield None, ()
                if not least:
                    yield None, ()
            case Terminal(text):
                if oracle.matches(text, ""):
                    yield None, ()
                yield Begun(text, ""), ()
            case Chars() | Literal() | Tokens() | Begun():
                yield part, ()
            case _:
                raise TypeError(f"not a part of a grammar that can be followed: {part}")


def _read(leaf: Leaf, after: Stack, c: str) -> Iterator[Stack]:
    """What is left once the character was read."""
    match leaf:
        case Chars(ranges) if any(low <= ord(c) <= high for low, high in ranges):
            yield after
        case Literal(text) if text[0] == c:
            yield (Literal(text[1:]), *after) if len(text) > 1 else after
        case Begun(terminal, read):
            if oracle.matches(terminal, read + c):
                yield after
            if not oracle.is_empty(f"({terminal}) & ({quoted(read + c)} {SOME_TEXT})"):
                yield (Begun(terminal, read + c), *after)


def _is_among(leaf: Leaf, token: int) -> bool:
    return isinstance(leaf, Tokens) and any(low <= token <= high for low, high in leaf.ids)


def _ranges(leaf: Leaf) -> tuple[Range, ...]:
    match leaf:
        case Chars(ranges):
            return ranges
        case Literal(text):
            return ((ord(text[0]), ord(text[0])),)
    return ()


def _plain(stack: Stack) -> Iterator[Part]:
    """Without what is nothing, so that equal ends look alike."""
    for part in stack:
        match part:
            case Seq(items):
                yield from _plain(items)
            case Repeat(_, _, 0):
                pass
            case _:
                yield part


def _nodes(stack: Stack) -> Iterator[Node]:
    for part in stack:
        if not isinstance(part, Begun):
            yield part
