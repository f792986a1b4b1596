"""Random grammars of a few letters and tokens. Their rules use later ones, or themselves at their end."""

import random

from tests.engine.constraints.stacks import All, Any, OneOf, Part, Rule, Stacked, Text, Times, Token
from tests.engine.constraints.tagged import AB, ABBA, BA, CALL, CALLED, SAY, THINK, THOUGHT

_TEXTS = ["a", "b", "c", "ab", "ba", "abc", "cc", "x", "xab", "abba"]
_CHARS = ["ab", "bc", "x", "abc", "a"]
_TOKENS = [
    *(Token(AB), Token(BA), Token(ABBA), Token(SAY), Token(THINK), Token(CALL)),
    *(Token(THINK, name="<think>"), Token(THOUGHT, name="</think>"), Token(CALLED, name="</call>")),
    *(Token(AB, is_any_other=True), Token(THOUGHT, is_any_other=True, name="</think>")),
]


def grammar(rng: random.Random, has_tokens: bool = True) -> Stacked:
    names = ["root", *(f"r{i}" for i in range(rng.randint(0, 2)))]
    found: dict[str, Part] = {}
    for number, name in enumerate(names):
        maker = _Maker(rng, names[number + 1 :], 0.5 if has_tokens else 0.0)
        body = maker.part(rng.randint(1, 3))
        if rng.random() < 0.2:  # it may come again, behind something
            body = Any((body, All((maker.leaf(), body, Rule(name)))))
        found[name] = body
    return Stacked(found)


class _Maker:
    def __init__(self, rng: random.Random, later: list[str], share: float) -> None:
        self._rng = rng
        self._later = later
        self._share = share  # of tokens among leaves

    def part(self, depth: int) -> Part:
        rng = self._rng
        if depth == 0:
            return self.leaf()
        match rng.choice(["leaf", "all", "all", "any", "times", "rule"]):
            case "all":
                return All(tuple(self.part(depth - 1) for _ in range(rng.randint(2, 3))))
            case "any":
                return Any(tuple(self.part(depth - 1) for _ in range(2)))
            case "times":
                least = rng.randint(0, 1)
                return Times(self.part(depth - 1), least, rng.choice([None, least + 1]))
            case "rule" if self._later:
                return Rule(rng.choice(self._later))
        return self.leaf()

    def leaf(self) -> Part:
        rng = self._rng
        if rng.random() < self._share:
            return rng.choice(_TOKENS)
        return Text(rng.choice(_TEXTS)) if rng.random() < 0.6 else OneOf(rng.choice(_CHARS))
