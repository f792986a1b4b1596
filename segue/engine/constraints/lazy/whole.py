"""The rules of a lazy grammar, of GBNF or of a schema."""

from segue.engine.constraints.grammar import (
    ANY,
    EMPTY,
    Chars,
    Either,
    GrammarError,
    Literal,
    Nested,
    Node,
    Ref,
    Repeat,
    Rules,
    Seq,
    refs,
    renamed,
)
from segue.engine.constraints.lark_text import write
from segue.engine.constraints.lazy.rules import lazy
from segue.engine.constraints.regular import pruned
from segue.engine.constraints.schemas.options import WHITESPACE
from segue.engine.constraints.schemas.spaces import SPACE, regex
from segue.engine.constraints.tokens import KnownTokens
from segue.types import Constraint

# The usual space in a schema as nodes, since a text would have to be tried as often as there are ways to write it.
_SPACE = Either(
    (
        *(EMPTY, Literal(" ")),
        Seq((Literal("\n"), Repeat(Chars(((9, 9), (32, 32))), 0, 40))),
    )
)
_OWN = "own "  # before the names of the grammar's rules


def of_gbnf(rules: Rules, constraint: Constraint, known: KnownTokens) -> Rules:
    """Raises GrammarError."""
    alive = pruned(rules)
    if alive is None:
        raise GrammarError("no text matches the grammar: root always leads back to itself")
    found = lazy(alive, constraint, known, lambda rest: renamed(rest, _OWN))
    own = {_OWN + name: renamed(body, _OWN) for name, body in alive.items()}
    return {"root": Ref("free")} | found | own


def of_schema(rules: Rules, constraint: Constraint, known: KnownTokens) -> Rules:
    """The same; what is left of the schema is a grammar within the grammar. `rules`: their leaves are lexemes."""

    def rest(node: Node) -> Node:
        if node == EMPTY:
            return node
        text = write(_reached({"root": node} | {n: b for n, b in rules.items() if n != "root"}))
        return Nested(text, ANY.ranges, (), mark=text, place="after the trigger")

    usual = rules.get(SPACE.name) == Repeat(regex(WHITESPACE), 0, 1)
    followed = rules | {SPACE.name: _SPACE} if usual else rules
    return {"root": Ref("free")} | lazy(followed, constraint, known, rest)


def _reached(rules: Rules) -> Rules:
    found: Rules = {}
    waiting = ["root"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = rules[name]
            waiting.extend(refs(rules[name]))
    return found
