"""Groups of a regular expression that capture, and the same ones without that: what they capture has no use here.

llguidance keeps what stands in one apart, and fails on alternatives that are one text then, `true|tr(ue)`. A group that
is called `stop` is look-ahead for it.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_LOOKAHEAD = "stop"
_WITHOUT = "(?:"
_PART = re.compile(
    r"\\."
    r"|\[\^?\]?"  # the first ] is a character of the class
    r"|\]"
    r"|\((?!\?)"
    r"|\(\?P?<(?P<name>[\w.]+)>",  # no part can begin within a name, so this is linear
    re.DOTALL,
)
_SPACED = re.compile(r"\(\?[a-zA-Z-]*x")  # then there may be comments, with anything in them


class _Opening(NamedTuple):
    begin: int
    end: int
    name: str | None


def without_lookahead(source: str) -> str:
    """A group that is called `stop` is one like others."""
    return _rewritten(source, {_LOOKAHEAD})


def uncaptured(source: str) -> str:
    """The same texts match, and no group captures."""
    return _rewritten(source, None)


def _rewritten(source: str, names: set[str] | None) -> str:
    """`names`: of the groups that are meant; None for all."""
    if _SPACED.search(source):
        return source
    written, at = "", 0
    for opening in _openings(source):
        if names is None or opening.name in names:
            written += source[at : opening.begin] + _WITHOUT
            at = opening.end
    return written + source[at:]


def _openings(source: str) -> Iterator[_Opening]:
    depth = 0  # of character classes
    for part in _PART.finditer(source):
        match part.group()[0]:
            case "[":
                depth += 1
            case "]":
                depth = max(depth - 1, 0)
            case "(" if not depth:
                yield _Opening(part.start(), part.end(), part["name"])
