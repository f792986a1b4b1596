"""Lark text, looked at before llguidance reads it: what that reader might not survive, or would not enforce."""

import re
from collections.abc import Iterator

import msgspec

from segue.engine import schema
from segue.engine.grammar import GrammarError

MAX_RULES = 1000  # each may use the next, and the reader calls itself for each

_QUIET = re.compile(  # strings, regular expressions and comments, in which nothing is an operator
    r'"(?:\\.|[^"\\\n])*"|/(?:\\.|[^/\\\n])+/|(?://|\#)[^\n]*'
)
_RULE = re.compile(r"^[ \t]*[!?]?_?[A-Za-z][\w-]*[^:\n]*:", re.MULTILINE)
_NEGATION = re.compile(r"~(?!\s*\d)")  # "~ 2..3" is a repetition
_INLINE = re.compile(r"%json\s*(?={)")


def check(text: str, lenient: bool) -> None:
    """Raises GrammarError."""
    outside = _QUIET.sub('""', text)
    if len(_RULE.findall(outside)) > MAX_RULES:
        raise GrammarError(f"the grammar has more than {MAX_RULES} rules")
    for inline in _inline_schemas(text):
        schema.check(inline, lenient)
    if _NEGATION.search(outside):
        raise GrammarError("the operator ~ (not) is not accepted: its cost has no limit")


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
