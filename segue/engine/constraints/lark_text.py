"""Rules as Lark text for llguidance: names in capitals are lexemes, the others are parser rules."""

from segue.engine.constraints.grammar import (
    Chars,
    Either,
    Free,
    GrammarError,
    Lexeme,
    Literal,
    Nested,
    Node,
    Ref,
    Repeat,
    Rules,
    Seq,
    Shared,
    Terminal,
    Tokens,
    Watched,
    parts,
)
from segue.engine.constraints.lexemes import cut
from segue.engine.constraints.regular import constant_rules, joined, pruned, straightened
from segue.engine.constraints.scalars.strings import char_class

_MAX_NESTING = 8  # what is deeper gets a name: llguidance reads about thirty levels
_SHORT = 4  # brackets and commas need no name
ANY_TEXT, SOME_TEXT = "/(?s:.*)/", "/(?s:.+)/"
_TIMES: dict[tuple[int, int | None], str] = {(0, None): "*", (1, None): "+", (0, 1): "?"}


def to_lark(rules: Rules) -> str:
    """Raises GrammarError if no text matches."""
    alive = pruned(rules)
    if alive is None:
        raise GrammarError("no text matches the grammar: root always leads back to itself")
    straight = straightened(alive)
    return _Writer(straight, cut(straight)).text()


def write(rules: Rules) -> str:
    """The same for rules whose leaves are lexemes already."""
    return _Writer(rules, rules).text()


def quoted(text: str) -> str:
    """A Lark string. Only the characters that its syntax reserves are escaped."""
    return '"' + "".join(_in_string(c) for c in text) + '"'


def _in_string(c: str) -> str:
    if c in '"\\':
        return "\\" + c
    return f"\\u{ord(c):04x}" if ord(c) < 0x20 or ord(c) == 0x7F else c


def _free(free: Free) -> str:
    stops = " | ".join(map(quoted, free.stops))
    if free.until is None:
        within = ANY_TEXT if free.most is None else f"/(?s:.{{0,{free.most}}})/"
        return f"{within} & ~({ANY_TEXT} ({stops}) {ANY_TEXT})" if stops else within
    if free.like:
        return f"(({free.like}) & ~({ANY_TEXT} ({stops}) {ANY_TEXT})) {quoted(free.until)}"
    body = f"({ANY_TEXT} {quoted(free.until)}) & ~({ANY_TEXT} ({stops}) {SOME_TEXT})"
    longer = [stop for stop in free.stops if stop != free.until and stop.endswith(free.until)]
    return f"{body} & ~({ANY_TEXT} ({' | '.join(map(quoted, longer))}))" if longer else body


class _Writer:
    def __init__(self, rules: Rules, parsed: Rules) -> None:
        self._rules = rules
        self._constants = constant_rules(rules)
        self._names = {name: f"r{i}" for i, name in enumerate(parsed)} | {"root": "start"}
        self._terminals: dict[Node, str] = {}  # lexemes and regular rules, by their node
        self._own: dict[str, str] = {}
        self._written: list[str] = []
        # Names with what they stand for, still to be written: a loop, since chains of rules are long.
        self._todo: list[tuple[str, Node, bool]] = [
            (self._names[name], body, False) for name, body in parsed.items()
        ]

    def text(self) -> str:
        lines: list[str] = []
        while len(lines) < len(self._todo):
            name, node, in_lexeme = self._todo[len(lines)]
            lines.append(f"{name}: {self._write(node, in_lexeme, 0)}\n")
        return "".join(lines + self._written)

    def _write(self, node: Node, in_lexeme: bool, depth: int) -> str:
        match node:
            case Lexeme(inner):
                return self._terminal(inner)
            case Ref(name):
                return self._terminal(node) if in_lexeme else self._names[name]
            case Literal(text):
                return quoted(text)
            case Chars(ranges):
                return f"/{char_class(ranges)}/"
            case Terminal(text):
                return self._own_words(text)
            case Free():
                return self._own_words(_free(node))
            case Shared():
                return self._terminal(node)
            case Watched(body=body):
                return self._write(body, in_lexeme, depth)
            case Tokens(ids):
                written = (f"{low}-{high}" if high > low else f"{low}" for low, high in ids)
                return f"<[{','.join(written)}]>"
            case Nested(text):
                return self._own_words(f"%lark {{\n{text}}}")
        if depth == _MAX_NESTING:
            return self._named(node, in_lexeme)
        match node:
            case Seq():
                items = joined(node, self._constants) if in_lexeme else parts(node)
                return " ".join(self._grouped(n, in_lexeme, depth) for n in items) or '""'
            case Either(options):
                return " | ".join(self._write(n, in_lexeme, depth + 1) for n in options)
            case Repeat(_, _, 0):
                return '""'
            case Repeat(item, least, most):
                times = _TIMES.get((least, most)) or f"{{{least},{'' if most is None else most}}}"
                return self._grouped(item, in_lexeme, depth) + times
        raise TypeError(f"not a node: {node}")

    def _grouped(self, node: Node, in_lexeme: bool, depth: int) -> str:
        written = self._write(node, in_lexeme, depth + 1)
        is_atom = isinstance(node, Chars | Literal | Ref | Lexeme | Terminal) or " " not in written
        return written if is_atom and not isinstance(node, Repeat | Seq) else f"({written})"

    def _terminal(self, node: Node) -> str:
        if node not in self._terminals:
            name = self._terminals[node] = f"T{len(self._terminals)}"
            body = self._rules[node.name] if isinstance(node, Ref) else node
            body = body.node if isinstance(body, Shared) else body
            self._todo.append((name, body, True))
        return self._terminals[node]

    def _own_words(self, text: str) -> str:
        if len(text) < _SHORT and text[0] == text[-1] == '"':
            return text
        if text not in self._own:
            kind = "j" if text.startswith("%") else "W"  # a schema or grammar is no lexeme
            self._own[text] = f"{kind}{len(self._own)}"
            self._written.append(f"{self._own[text]}: {text}\n")
        return self._own[text]

    def _named(self, node: Node, in_lexeme: bool) -> str:
        if in_lexeme:
            return self._terminal(node)
        name = f"g{len(self._todo)}"
        self._todo.append((name, node, False))
        return name
