"""Random lazy grammars: triggers, and grammars that mostly fit what these give to them."""

import random
import re
from typing import NamedTuple

from segue.engine.seam import Vocab
from segue.types import Constraint, Trigger
from tests.engine.constraints import random_grammars
from tests.engine.constraints.lazy.oracle import Lazy, Pattern
from tests.engine.constraints.stacks import All, Any, OneOf, Part, Rule, Stacked, Text, Times, Token
from tests.engine.constraints.tagged import AB, CALL, SAY, THINK

WORDS = ["ab c", "bc", "aab", "xb", "<call>", "<call>a", "c<think>", "abab", "b<", "cab"]
TOKENS = [CALL, AB, THINK, SAY]
_BS, _ABS = Times(OneOf("b"), 1, None), Times(OneOf("ab"), 0, None)
# With what each gives to the grammar.
PATTERNS: dict[str, Part] = {
    "<call>": Text("<call>"),
    "ab": Text("ab"),
    "(b)c": Text("bc"),
    "a+(b)": Text("b"),
    "x[ab]*c": All((Text("x"), _ABS, Text("c"))),
    "c(a|b)?x": Any((Text("a"), Text("b"), Text("cx"))),
    "^ab?(c)": Text("c"),
    "<think>": Token(THINK),
    "(?:a|x)(b+)c": All((_BS, Text("c"))),
    "[ab]{2}(c)": Text("c"),
    "b(a)|(c)c": Any((Text("a"), Text("cc"))),
    r"\s+a": Text(" a"),
    "[^a]b": All((OneOf("bcx"), Text("b"))),
    "a*?(b)": Text("b"),
    "</think>(a|b)": OneOf("ab"),
}
# They look at the end of the output, or at what comes next.
LOOKING: dict[str, Part] = {
    "^a+b$": All((Times(Text("a"), 1, None), Text("b"))),
    r"^\s+ab$": Text(" ab"),
    "ab(?!c)": Text("ab"),
    "x(?=a)": Text("x"),
    "(b)$": Text("b"),
}
# Of the whole output.
FULL: dict[str, Part] = {
    r"[\s\S]*?(ab)[\s\S]*": Text("ab"),
    r"[ab]*(c)[\s\S]*": Text("c"),
    "x+b": Text("xb"),
}


class RandomLazy(NamedTuple):
    grammar: Stacked
    constraint: Constraint
    patterns: tuple[str, ...]  # of all that are no tokens, as llama.cpp has them
    tokens: tuple[int, ...]

    def matcher(self, controls: frozenset[int]) -> Lazy:
        found = [Pattern(_of_python(pattern)) for pattern in self.patterns]
        return Lazy(self.grammar, found, frozenset(self.tokens), controls)


def random_lazy(rng: random.Random, vocab: Vocab, has_tokens: bool = True) -> RandomLazy:
    """Without tokens for any vocabulary, otherwise for the tagged one."""
    triggers: list[Trigger] = []
    preserved: list[str] = []
    patterns: list[str] = []
    tokens: list[int] = []
    given: list[Part] = []
    for number in range(rng.choice([1, 1, 2, 3])):
        param = f"grammar_triggers[{number}]"
        kinds = ["word", "word", "pattern", "pattern", "looking", "full"]
        match rng.choice([*kinds, "token"] if has_tokens else kinds):
            case "word":
                word = rng.choice(WORDS)
                triggers.append(Trigger("word", word, param=param))
                read = vocab.tokenize(word, False, True)
                if len(read) == 1:
                    preserved.append(word)
                    tokens += read
                else:
                    patterns.append(re.sub(r"[.^$|()*+?\[\]{}\\]", r"\\\g<0>", word))
                given.append(Text(word))
            case "token":
                token = rng.choice(TOKENS)
                triggers.append(Trigger("token", "", token, param))
                tokens.append(token)
                text = vocab.piece(token).decode()
                given.append(Token(token) if rng.random() < 0.5 else Text(text))
            case "full":
                pattern = rng.choice([*FULL])
                triggers.append(Trigger("pattern_full", pattern, param=param))
                patterns.append(f"^{pattern}$")
                given.append(FULL[pattern])
            case kind:
                known = LOOKING if kind == "looking" else PATTERNS
                if not has_tokens:
                    known = {p: part for p, part in known.items() if not isinstance(part, Token)}
                pattern = rng.choice([*known])
                triggers.append(Trigger("pattern", pattern, param=param))
                patterns.append(pattern)
                given.append(known[pattern])
    grammar = _beginning(rng, given, has_tokens)
    constraint = Constraint(
        kind="gbnf", value=str(grammar), triggers=tuple(triggers), preserved=tuple(preserved)
    )
    return RandomLazy(grammar, constraint, tuple(patterns), tuple(tokens))


def _beginning(rng: random.Random, given: list[Part], has_tokens: bool) -> Stacked:
    """A grammar that begins with one of these, mostly."""
    found = random_grammars.grammar(rng, has_tokens and rng.random() < 0.5)
    if rng.random() < 0.1:
        return found
    root: Part = All((Any(tuple(given)), Rule("rest")))
    if rng.random() < 0.2:
        root = Any((root, All((OneOf("ab x"), root))))
    return Stacked({**found.rules, "root": root, "rest": found.rules["root"]})


def _of_python(pattern: str) -> str:
    """Without what may follow in any case, and with an end that is no line break before the end."""
    return re.sub(
        r"(?:\[\\s\\S\]\*)?(?<!\\)\$$", lambda end: "" if len(end[0]) > 1 else r"\Z", pattern
    )
