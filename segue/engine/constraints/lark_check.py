"""Lark text, looked at before llguidance reads it: what that reader might not survive, or would not enforce."""

import re
from collections.abc import Iterator
from itertools import accumulate

import msgspec

from segue.engine.constraints import schema
from segue.engine.constraints.grammar import GrammarError, settled

MAX_RULES = 1000  # each may use the next, and the reader calls itself for each
MAX_DEPTH = 500  # of a terminal, through those that it uses; what it costs grows with the square

_QUIET = re.compile(  # strings, regular expressions and comments, in which nothing is an operator
    r'"(?:\\.|[^"\\\n])*"|/(?:\\.|[^/\\\n])+/|(?://|\#)[^\n]*'
)
_RULE = re.compile(r"^[ \t]*[!?]?_?[A-Za-z][\w-]*[^:\n]*:", re.MULTILINE)
_TERMINAL = re.compile(r"^[ \t]*(_?[A-Z][A-Z0-9_-]*)[^:\n]*:", re.MULTILINE)
_TERMINAL_NAME = re.compile(r"\b_?[A-Z][A-Z0-9_-]*\b")
_NEGATION = re.compile(r"~(?!\s*\d)")  # "~ 2..3" is a repetition
_INLINE = re.compile(r"%json\s*(?={)")


def check(text: str, lenient: bool) -> None:
    """Raises GrammarError."""
    outside = _QUIET.sub('""', text)
    if len(_RULE.findall(outside)) > MAX_RULES:
        raise GrammarError(f"the grammar has more than {MAX_RULES} rules")
    _check_depth(outside)
    for inline in _inline_schemas(text):
        schema.check(inline, lenient)
    if _NEGATION.search(outside):
        raise GrammarError("the operator ~ (not) is not accepted: its cost has no limit")


def _check_depth(outside: str) -> None:
    starts = [(found.group(1), found.end()) for found in _TERMINAL.finditer(outside)]
    rules = [found.start() for found in _RULE.finditer(outside)] + [len(outside)]
    depths: dict[str, int] = {}
    own: dict[str, int] = {}
    used: dict[str, set[str]] = {}
    for name, start in starts:
        body = outside[start : next(end for end in rules if end >= start)]
        own[name] = 1 + max(accumulate((c == "(") - (c == ")") for c in body), default=0)
        used[name] = set(_TERMINAL_NAME.findall(body))
    for name in used:
        used[name] &= own.keys()
    for name in settled(used, lambda name, found: used[name] <= found):
        depths[name] = own[name] + max((depths[inner] for inner in used[name]), default=0)
        if depths[name] > MAX_DEPTH:
            raise GrammarError(f"{name} is nested more than {MAX_DEPTH} deep")


def _inline_schemas(text: str) -> Iterator[schema.Json]:
    for found in _INLINE.finditer(text):
        start = found.end()
        source = text[start : _end_of_object(text, start)]
        schema.check_nesting(source)
        try:
            yield msgspec.json.decode(source)
        except msgspec.DecodeError as error:
            raise GrammarError(f"the schema after %json is not JSON: {error}") from None


def _end_of_object(text: str, start: int) -> int:
    depth = 0
    for found in re.compile(r'"(?:\\.|[^"\\])*"|[{}]').finditer(text, start):
        depth += {"{": 1, "}": -1}.get(found.group(), 0)
        if depth == 0:
            return found.end()
    raise GrammarError("the schema after %json is never closed")
