"""Random patterns before random grammars, which may fit what these give to them or not, held to the matcher."""

import random

from segue.engine.constraints.compiler import Compiler
from segue.errors import InvalidField
from segue.runners.llama.vocab import LlamaVocab
from segue.types import Constraint, Trigger
from tests.engine.constraints import random_grammars
from tests.engine.constraints.guided import allowed
from tests.engine.constraints.lazy.oracle import Lazy, Pattern, Read, fitting
from tests.engine.constraints.stacks import All, Any, OneOf, Part, Rule, Stacked, Text, Times
from tests.engine.constraints.tagged import END

ATOMS = ["a", "b", "c", "x", "[ab]", "[^a]", "ab", ".", "bc"]
SIGNS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}"]
ENDS = ["a$", "c$", "b(?=[ab])", "x(?!c)"]  # few in a pattern: where each is decided must be plain
LETTERS = set("abcx <\nd")
GIVEN: list[Part] = [
    Times(OneOf("abcx"), 0, None),
    Times(OneOf("abcx"), 0, 3),
    Times(Any((Text("ab"), Text("c"), OneOf("ax"))), 0, None),
    OneOf("abc"),
]


def pattern(rng: random.Random, depth: int) -> str:
    kind = rng.random() if depth else 0.0
    if kind < 0.3:
        return rng.choice(ATOMS)
    if kind < 0.5:
        return "".join(pattern(rng, depth - 1) for _ in range(rng.randint(2, 3)))
    if kind < 0.62:
        return f"(?:{pattern(rng, depth - 1)}|{pattern(rng, depth - 1)})"
    if kind < 0.8:
        return f"({pattern(rng, depth - 1)})"
    return f"(?:{pattern(rng, depth - 1)}){rng.choice(SIGNS)}"


class Sure(Pattern):
    """One that looks neither at the end nor at what follows: what is complete is so whatever comes next."""

    def search(self, text: str) -> tuple[int, bool] | None:
        found = super().search(text)
        return None if found is None else (found[0], True)


def random_pattern(rng: random.Random) -> Pattern:
    text = rng.choice(["", "", "", "^"]) + pattern(rng, rng.randint(1, 3))
    if rng.random() < 0.75:
        return Sure(text)
    return Pattern(text + rng.choice(ENDS))


def random_grammar(rng: random.Random) -> Stacked:
    found = random_grammars.grammar(rng, False)
    root: Part = All((rng.choice(GIVEN), Rule("rest")))
    return Stacked({**found.rules, "root": root, "rest": found.rules["root"]})


def test_what_random_patterns_let_come(made: Compiler, vocab: LlamaVocab) -> None:
    rng = random.Random(0)
    num_compiled = num_steps = num_triggered = 0
    pieces = {t: vocab.piece(t).decode(errors="replace") for t in range(vocab.size)}
    plain = (t for t in pieces if t != END and not vocab.is_control(t))
    texts = {t: pieces[t] for t in plain if pieces[t] and set(pieces[t]) <= LETTERS}
    for _ in range(70):
        patterns = [random_pattern(rng) for _ in range(rng.choice([1, 1, 2]))]
        grammar = random_grammar(rng)
        triggers = tuple(Trigger("pattern", each.regex) for each in patterns)
        try:
            compiled = made.compile(Constraint(kind="gbnf", value=str(grammar), triggers=triggers))
        except InvalidField:
            continue
        num_compiled += 1
        of_python = [each._replace(regex=each.regex.replace("$", r"\Z")) for each in patterns]
        lazy = Lazy(grammar, of_python, frozenset(), frozenset())
        matcher, read = compiled.matcher.deep_copy(), Read()
        for _ in range(8):
            fits = fitting(lazy, read, texts)
            assert allowed(matcher, texts) == fits.keys(), (patterns, str(grammar), read)
            assert matcher.is_accepting() == (read.stacks is None or () in read.stacks)
            if not fits:
                break
            fired = [t for t, after in fits.items() if after.stacks is not None]
            token = rng.choice(fired if fired and rng.random() < 0.3 else sorted(fits))
            num_steps += 1
            num_triggered += read.stacks is None and fits[token].stacks is not None
            read = fits[token]
            matcher.consume_token(token)
            if matcher.is_stopped():
                break
    assert num_compiled > 30
    assert num_steps > 150
    assert num_triggered > 20
