"""Random GBNF grammars, texts to match, and a recogniser that works by the book."""

from collections.abc import Iterable
from functools import reduce
from itertools import product
from operator import or_
from random import Random

from segue.engine.constraints.grammar import Chars, Either, Literal, Node, Ref, Repeat, Rules, Seq

NAMES = ("root", "p", "q")
TEXTS = tuple("".join(t) for size in range(5) for t in product("ab", repeat=size))
_ATOMS = ('"a"', '"b"', '"ab"', '"ba"', "[ab]", "[^a]", "[a-c]", '"é"', '""', ".", *NAMES, *NAMES)
_TIMES = ("*", "+", "?", "{2}", "{0,2}", "{1,}")


def grammar(random: Random) -> str:
    """Three rules that may use each other and themselves, in any way."""
    return "".join(f"{name} ::= {_options(random, 2)}\n" for name in NAMES)


def _options(random: Random, depth: int) -> str:
    return " | ".join(_sequence(random, depth) for _ in range(random.choice((1, 1, 2, 3))))


def _sequence(random: Random, depth: int) -> str:
    return " ".join(_item(random, depth) for _ in range(random.choice((1, 1, 2, 2, 3))))


def _item(random: Random, depth: int) -> str:
    is_nested = depth > 0 and random.random() < 0.3
    item = f"({_options(random, depth - 1)})" if is_nested else random.choice(_ATOMS)
    return item + (random.choice(_TIMES) if random.random() < 0.3 else "")


class Recogniser:
    """Where in a text each rule can end, by where it begins, grown until nothing is added. Sets of places are bits."""

    def __init__(self, rules: Rules, text: str) -> None:
        self._text = text
        self._begins: dict[Node, int] = {}  # of literals and characters
        self._ends: dict[str, list[int]] = {name: [0] * (len(text) + 1) for name in rules}
        grew = True
        while grew:
            grew = False
            for name, body in rules.items():
                for start, known in enumerate(self._ends[name]):
                    found = known | self._after(body, 1 << start)
                    grew |= found != known
                    self._ends[name][start] = found
        self.matches = bool(self._ends["root"][0] >> len(text))

    def _after(self, node: Node, starts: int) -> int:
        """Where it ends if it begins at one of these places."""
        if not starts:
            return 0
        match node:
            case Literal(text):
                return (starts & self._places(node)) << len(text)
            case Chars():
                return (starts & self._places(node)) << 1
            case Ref(name):
                return _union(e for i, e in enumerate(self._ends[name]) if starts >> i & 1)
            case Either(options):
                return _union(self._after(option, starts) for option in options)
            case Seq(items):
                for item in items:
                    starts = self._after(item, starts)
                return starts
            case Repeat(item, least, most):
                for _ in range(least):
                    starts = self._after(item, starts)
                more = len(self._text) if most is None else most - least
                for _ in range(more):
                    before, starts = starts, starts | self._after(item, starts)
                    if starts == before:
                        break
                return starts
        raise TypeError(node)

    def _places(self, node: Literal | Chars) -> int:
        if node not in self._begins:
            self._begins[node] = sum(
                1 << i for i in range(len(self._text) + 1) if self._is_at(node, i)
            )
        return self._begins[node]

    def _is_at(self, node: Literal | Chars, start: int) -> bool:
        if isinstance(node, Literal):
            return self._text.startswith(node.text, start)
        code = ord(self._text[start]) if start < len(self._text) else -1
        return any(low <= code <= high for low, high in node.ranges)


def _union(sets: Iterable[int]) -> int:
    return reduce(or_, sets, 0)
