"""GBNF, the grammars of llama.cpp: text → rules. Tokens by id or text are rules too: `<[1000]>`, `<think>`, `!<think>`.

Beyond llama.cpp: literals in single quotes, underscores in names, a line that starts with "|" goes on with the
rule above. A rule defined twice is an error, where llama.cpp lets the last one win.
"""

import string

from segue.engine.constraints.grammar import (
    ANY,
    EMPTY,
    LAST,
    SURROGATES,
    Chars,
    GrammarError,
    Literal,
    Node,
    Range,
    Ref,
    Repeat,
    Rules,
    char_set,
    complement,
    either,
    refs,
    seq,
)
from segue.engine.constraints.tokens import TokenSets, disjoint

MAX_NESTING = 100
MAX_RULES = 1000
MAX_COUNT = 100_000

_NAME = frozenset(string.ascii_letters + string.digits + "-_")
_ESCAPES = {c: c for c in "\\\"'[]/-^"} | {"n": "\n", "r": "\r", "t": "\t"}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_QUOTES = "\"'"
_TIMES: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def _is_id(digits: str) -> bool:
    return digits.isascii() and digits.isdecimal() and len(digits) < 10


def parse(text: str, tokens: TokenSets) -> Rules:
    """The rules of a grammar, each name defined. The first to be matched is `root`. `tokens`: of the model."""
    parser = _Parser(text, tokens)
    rules = parser.rules()
    if "root" not in rules:
        raise GrammarError("the grammar has no rule named root")
    for name, body in rules.items():
        for used in refs(body):
            if used not in rules:
                raise GrammarError(f"rule {name} uses {used}, which is not defined")
    return disjoint(rules)


class _Parser:
    def __init__(self, text: str, tokens: TokenSets) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._tokens = tokens
        self._sets: dict[Node, str] = {}  # of tokens, and what their rules are called

    def rules(self) -> Rules:
        found = self._written_rules()
        return found | {name: body for body, name in self._sets.items()}

    def _written_rules(self) -> Rules:
        found: Rules = {}
        self._skip(newlines=True)
        while self._at < len(self._text):
            start = self._at
            name = self._name()
            if name in found:
                raise self._error(f"rule {name} is defined twice", start)
            if len(found) >= MAX_RULES:
                raise GrammarError(f"the grammar has more than {MAX_RULES} rules")
            self._skip()
            if not self._take("::="):
                raise self._error("expected ::= after the name of a rule")
            self._skip(newlines=True)
            found[name] = self._options(nested=False)
            c = self._peek()
            if c and c not in "\r\n" and not (c in _NAME and self._is_definition()):
                raise self._error(f"unexpected {c!r}")
            self._skip(newlines=True)
        return found

    # --- expressions -----------------------------------------------------------------------------

    def _options(self, nested: bool) -> Node:
        options = [self._sequence(nested)]
        while self._goes_on(nested):
            self._skip(newlines=True)
            options.append(self._sequence(nested))
        return either(*options)

    def _goes_on(self, nested: bool) -> bool:
        """Past a "|", which may also begin the next line."""
        before = self._at
        self._skip(newlines=True)
        if self._take("|"):
            return True
        if not nested:
            self._at = before
        return False

    def _sequence(self, nested: bool) -> Node:
        items: list[Node] = []
        self._skip(newlines=nested)
        while (item := self._item()) is not None:
            self._skip(newlines=nested)
            items.append(self._repeated(item, nested))
        return seq(*items)

    def _repeated(self, item: Node, nested: bool) -> Node:
        """With all signs of repetition behind it: the second repeats what the first made."""
        start, signs = self._at, 0
        while (times := self._times()) is not None:
            if (signs := signs + 1) > MAX_NESTING:
                raise self._error(f"more than {MAX_NESTING} signs of repetition", start)
            item = Repeat(item, *times)
            self._skip(newlines=nested)
        return item

    def _item(self) -> Node | None:
        c = self._peek()
        if c and c in _QUOTES:
            return self._literal()
        if c == "[":
            return self._char_class()
        if c == "(":
            return self._group()
        if self._take("."):
            return ANY
        if c in _NAME and not self._is_definition():
            return Ref(self._name())
        if c == "<" or c == "!":
            return self._token()
        return None

    def _token(self) -> Node:
        start = self._at
        is_negated = self._take("!")
        if not self._take("<"):
            raise self._error("expected a token after !, <think> or <[1000]>", start)
        end = self._text.find(">", self._at)
        if end < 0:
            raise self._error("this < is never closed", start)
        within, self._at = self._text[self._at : end], end + 1
        place = self._text[start : self._at]
        try:
            token = self._number_of(within)
            body = (self._tokens.any_but if is_negated else self._tokens.exact)(token, place)
        except GrammarError as error:
            raise self._error(str(error), start) from None
        return Ref(self._sets.setdefault(body, place))

    def _number_of(self, within: str) -> int:
        """Of the token with this between its brackets."""
        if not within.startswith("["):
            return self._tokens.one(f"<{within}>")
        digits = within[1:-1]
        if not within.endswith("]") or not _is_id(digits):
            raise GrammarError(f"expected the number of a token, <[1000]>, not <{within[:40]}>")
        return int(digits)

    def _group(self) -> Node:
        start = self._at
        self._at += 1
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self._error(f"parentheses are nested more than {MAX_NESTING} deep", start)
        node = self._options(nested=True)
        if not self._take(")"):
            raise self._error("this parenthesis is never closed", start)
        self._depth -= 1
        return node

    def _times(self) -> tuple[int, int | None] | None:
        c = self._peek()
        if c in _TIMES:
            self._at += 1
            return _TIMES[c]
        start = self._at
        if not self._take("{"):
            return None
        self._skip()
        least = self._number()
        most: int | None = least
        self._skip()
        if self._take(","):
            self._skip()
            most = None if self._peek() == "}" else self._number()
            self._skip()
        if not self._take("}"):
            raise self._error("expected } after the number of repetitions")
        if most is not None and most < least:
            raise self._error("the most repetitions are fewer than the least", start)
        return least, most

    def _number(self) -> int:
        start = self._at
        while self._peek().isdecimal():
            self._at += 1
        digits = self._text[start : self._at]
        if not digits:
            raise self._error("expected a number of repetitions")
        if len(digits) > 9 or int(digits) > MAX_COUNT:
            raise self._error(f"more than {MAX_COUNT} repetitions", start)
        return int(digits)

    # --- characters ------------------------------------------------------------------------------

    def _literal(self) -> Node:
        start, quote = self._at, self._peek()
        self._at += 1
        found: list[str] = []
        while not self._take(quote):
            found.append(self._char("this quote is never closed", start))
        return Literal("".join(found)) if found else EMPTY

    def _char_class(self) -> Node:
        start = self._at
        self._at += 1
        is_negated = self._take("^")
        ranges: list[Range] = []
        unclosed = "this [ is never closed"
        while not self._take("]"):
            low = high = ord(self._char(unclosed, start))
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] != "]":
                self._at += 1
                high = ord(self._char(unclosed, start))
            if high < low:
                raise self._error("a range of characters ends before it begins", start)
            ranges.append((low, high))
        chars = char_set(ranges)
        if is_negated:
            chars = complement(chars)
        if not chars:
            raise self._error("this class has no characters", start)
        return Chars(chars)

    def _char(self, unclosed: str, start: int) -> str:
        c = self._peek()
        if not c:
            raise self._error(unclosed, start)
        if c == "\0":
            raise self._error("a grammar cannot hold NUL: write \\x00")
        self._at += 1
        return self._escape() if c == "\\" else c

    def _escape(self) -> str:
        start = self._at - 1
        kind = self._peek()
        self._at += 1
        if kind in _ESCAPES and kind:
            return _ESCAPES[kind]
        if kind not in _HEX_DIGITS or not kind:
            raise self._error(f"unknown escape \\{kind}", start)
        digits = self._text[self._at : self._at + _HEX_DIGITS[kind]]
        if len(digits) < _HEX_DIGITS[kind] or set(digits) - set(string.hexdigits):
            raise self._error(f"\\{kind} needs {_HEX_DIGITS[kind]} hexadecimal digits", start)
        code = int(digits, 16)
        if code > LAST or SURROGATES[0] <= code <= SURROGATES[1]:
            raise self._error("there is no such character", start)
        self._at += len(digits)
        return chr(code)

    # --- text ------------------------------------------------------------------------------------

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _name(self) -> str:
        start = self._at
        while self._peek() in _NAME:
            self._at += 1
        if self._at == start:
            raise self._error("expected the name of a rule")
        return self._text[start : self._at]

    def _is_definition(self) -> bool:
        """Whether the name here begins the next rule: it is followed by "::="."""
        before = self._at
        self._name()
        self._skip()
        found = self._text.startswith("::=", self._at)
        self._at = before
        return found

    def _skip(self, newlines: bool = False) -> None:
        """Spaces and comments."""
        while c := self._peek():
            if c == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif c in " \t" or (newlines and c in "\r\n"):
                self._at += 1
            else:
                return

    def _error(self, message: str, at: int | None = None) -> GrammarError:
        at = self._at if at is None else at
        line = self._text.count("\n", 0, at) + 1
        column = at - (self._text.rfind("\n", 0, at) + 1) + 1
        return GrammarError(f"line {line}, column {column}: {message}")
