"""Checks Lark text before llguidance reads it: refuses what would crash it, or what it would not enforce."""

import re
from collections.abc import Callable
from itertools import accumulate

from segue.engine.constraints.grammar import GrammarError, settled
from segue.engine.constraints.schemas.values import Json, read_json

MAX_RULES = 1000  # each may use the next, and the reader calls itself for each
MAX_DEPTH = 500  # of a terminal, through those that it uses; what it costs grows with the square

# Each takes a text of any kind in linear time: tests/test_regular_expressions.py holds them to it.
_QUIET = re.compile(  # strings, regular expressions and comments, in which nothing is an operator
    r'("(?:\\.|[^"\\\n])*+(?:(")i?)?+)|(/(?:\\.|[^/\\\n])++(?:(/)[a-z]*+)?+)|(?://|\#)[^\n]*+'
)
_RULE = re.compile(r"^[ \t]*+[!?]?+(?=_?[A-Za-z])([\w-]*+)[^:\n]*+:", re.MULTILINE)
_NAME = re.compile(r"[\w-]++")
_NEGATION = re.compile(r"~(?!\s*+\d)")  # "~ 2..3" is a repetition
_INLINE = re.compile(r"%json\s*+(?={)")
_JSON_PART = re.compile(r'"(?:\\.|[^"\\])*+"?+|[{}]', re.DOTALL)


def check(text: str) -> None:
    """Raises GrammarError."""
    outside = _QUIET.sub(_blank, text)
    rules = list(_RULE.finditer(outside))
    if len(rules) > MAX_RULES:
        raise GrammarError(f"the grammar has more than {MAX_RULES} rules")
    _check_depth(outside, rules)
    if _NEGATION.search(outside):
        raise GrammarError("the operator ~ (not) is not accepted: its cost has no limit")


def _blank(found: re.Match[str]) -> str:
    string, string_end, regex, regex_end = found.groups()
    if (string and not string_end) or (regex and not regex_end):
        raise GrammarError(f"{found.group()[:20]!r} is never closed on its line")
    return '""'


def _check_depth(outside: str, rules: list[re.Match[str]]) -> None:
    depths: dict[str, int] = {}
    own: dict[str, int] = {}
    used: dict[str, set[str]] = {}
    ends = [*(rule.start() for rule in rules), len(outside)][1:]
    for rule, end in zip(rules, ends, strict=True):
        name, body = rule.group(1), outside[rule.end() : end]
        if name.isupper():  # a terminal
            own[name] = 1 + max(accumulate((c == "(") - (c == ")") for c in body), default=0)
            used[name] = set(_NAME.findall(body))
    for name in used:
        used[name] &= own.keys()
    for name in settled(used, lambda name, found: used[name] <= found):
        depths[name] = own[name] + max((depths[inner] for inner in used[name]), default=0)
        if depths[name] > MAX_DEPTH:
            raise GrammarError(f"{name} is nested more than {MAX_DEPTH} deep")


def replaced(text: str, compile: Callable[[Json], str]) -> str:
    """The text with each schema in it replaced. Raises GrammarError."""
    pieces: list[str] = []
    copied = at = 0
    inline = _INLINE.search(text)
    while inline is not None:
        quiet = _QUIET.search(text, at)
        if quiet is not None and quiet.start() < inline.start():  # in a string there is no schema
            at = quiet.end()
            inline = inline if at <= inline.start() else _INLINE.search(text, at)
            continue
        pieces.append(text[copied : inline.start()])
        copied = at = _end_of_object(text, inline.end())
        pieces.append(compile(read_json(text[inline.end() : at], "the schema after %json")))
        inline = _INLINE.search(text, at)
    return "".join([*pieces, text[copied:]])


def _end_of_object(text: str, start: int) -> int:
    depth = 0
    for found in _JSON_PART.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(found.group(), 0)
        if depth == 0:
            return found.end()
    raise GrammarError("the schema after %json is never closed")
