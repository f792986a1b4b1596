"""Names for the keywords of a schema that have no effect, fit for a header."""

from collections.abc import Sequence
from urllib.parse import quote

MAX_POINTERS = 16  # more of them are named by their keywords alone
MAX_NAMES = 32
MAX_CHARS = 120


def named(param: str, pointers: Sequence[str]) -> tuple[str, ...]:
    """`json_schema#/properties/a/maxLen` for each pointer, `param` being the caller's name of the field."""
    if len(pointers) > MAX_POINTERS:
        pointers = ["#" + pointer.lstrip("#").rsplit("/", 1)[-1] for pointer in pointers]
    names = dict.fromkeys(param + quote(pointer, safe="#/~$") for pointer in pointers)
    return tuple(name[:MAX_CHARS] for name in names)[:MAX_NAMES]
