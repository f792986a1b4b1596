"""Grammars of a few letters, and a matcher of them by stacks that knows nothing of ours: llama.cpp's way to follow one.

A stack is what is still to come, the next part first. A token is read as itself, or character by character, never both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Text:
    text: str

    def __str__(self) -> str:
        return '"' + self.text.replace("\n", "\\n") + '"'


@dataclass(frozen=True)
class OneOf:
    chars: str

    def __str__(self) -> str:
        return "[" + self.chars.replace("\n", "\\n") + "]"


@dataclass(frozen=True)
class Token:
    token: int
    is_any_other: bool = False
    name: str = ""  # its text, if that is how it is written

    def __str__(self) -> str:
        return "!" * self.is_any_other + (self.name or f"<[{self.token}]>")

    def fits(self, token: int) -> bool:
        return (token == self.token) != self.is_any_other


@dataclass(frozen=True)
class All:
    parts: tuple["Part", ...]

    def __str__(self) -> str:
        return " ".join(map(str, self.parts)) if self.parts else '""'


@dataclass(frozen=True)
class Any:
    options: tuple["Part", ...]

    def __str__(self) -> str:
        return f"({' | '.join(map(str, self.options))})"


@dataclass(frozen=True)
class Times:
    part: "Part"
    least: int
    most: int | None

    def __str__(self) -> str:
        most = "" if self.most is None else self.most
        return f"({self.part}){{{self.least},{most}}}"


@dataclass(frozen=True)
class Rule:
    name: str

    def __str__(self) -> str:
        return self.name


Part = Text | OneOf | Token | All | Any | Times | Rule
Stack = tuple[Part, ...]
Stacks = frozenset[Stack]


class Stacked:
    """A grammar."""

    def __init__(self, rules: dict[str, Part]) -> None:
        self.rules = rules
        self._closed: dict[Stack, Stacks] = {}

    def __str__(self) -> str:
        return "\n".join(f"{name} ::= {body}" for name, body in self.rules.items())

    @cached_property
    def start(self) -> Stacks:
        return self._close((Rule("root"),))

    def read(self, stacks: Stacks, token: int, text: str) -> Stacks:
        """After a token, whole. None is left if it may not come."""
        return self.named(stacks, token) | self.spelled(stacks, text)

    def named(self, stacks: Stacks, token: int) -> Stacks:
        """After a token that is meant by itself."""
        found: set[Stack] = set()
        for stack in stacks:
            if stack and isinstance(stack[0], Token) and stack[0].fits(token):
                found |= self._close(stack[1:])
        return frozenset(found)

    def spelled(self, stacks: Stacks, text: str) -> Stacks:
        """After a text."""
        for c in text:
            stacks = frozenset(
                after
                for stack in stacks
                for rest in self._past(stack, c)
                for after in self._close(rest)
            )
        return stacks

    def is_mistaken(self, stacks: Stacks, token: int, text: str) -> bool:
        """Whether llama.cpp lets a token come that it cannot read: the rest of it stands where a token is meant."""
        for at in range(1, len(text)):
            stacks = self.spelled(stacks, text[at - 1])
            if self.named(stacks, token):
                return True
        return False

    def _past(self, stack: Stack, c: str) -> Iterator[Stack]:
        match stack[:1]:
            case (Text(text),) if text[0] == c:
                yield (Text(text[1:]), *stack[1:]) if len(text) > 1 else stack[1:]
            case (OneOf(chars),) if c in chars:
                yield stack[1:]

    def _close(self, stack: Stack) -> Stacks:
        """The stacks that it stands for: empty, or with text or a token next."""
        if stack not in self._closed:
            found: set[Stack] = set()
            seen: set[Stack] = set()
            waiting = [stack]
            while waiting:
                current = waiting.pop()
                if current in seen:
                    continue
                seen.add(current)
                if not current or isinstance(current[0], Text | OneOf | Token):
                    found.add(current)
                else:
                    waiting += self._opened(current[0], current[1:])
            self._closed[stack] = frozenset(found)
        return self._closed[stack]

    def _opened(self, part: Part, rest: Stack) -> Iterator[Stack]:
        match part:
            case Rule(name):
                yield (self.rules[name], *rest)
            case All(parts):
                yield (*parts, *rest)
            case Any(options):
                for option in options:
                    yield (option, *rest)
            case Times(inner, least, most):
                if least == 0:
                    yield rest
                if most != 0:
                    fewer = None if most is None else most - 1
                    yield (inner, Times(inner, max(least - 1, 0), fewer), *rest)
