"""How a refusal names the settings it is about: a table of checks has the keys of each."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.family import Family

_SHOWN = 24  # characters of a value


class Check(NamedTuple):
    """What may be wrong with settings that each make sense by themselves, and which they are."""

    wrong: Callable[[GgufHeader, Family], str | None]
    keys: tuple[str, ...]


def first_wrong(header: GgufHeader, family: Family, checks: Iterable[Check]) -> str | None:
    """What the first check says that finds anything wrong, with the settings it is about; None if all is right."""
    for check in checks:
        if wrong := check.wrong(header, family):
            return f"{wrong}{said(header, check.keys)}"
    return None


def said(header: GgufHeader, keys: Iterable[str]) -> str:
    """What the file says under these keys of its architecture, in brackets; nothing if it has none of them."""
    given = [f"{key} {_value(header, key)}" for key in keys if is_said(header, key)]
    return f" ({header.architecture}: {', '.join(given)})" if given else ""


def is_said(header: GgufHeader, key: str) -> bool:
    name = f"{header.architecture}.{key}"
    return name in header.metadata or name in header.array_lengths or bool(header.listed(key))


def _value(header: GgufHeader, key: str) -> str:
    value = header.metadata.get(f"{header.architecture}.{key}")
    whole = repr(list(header.listed(key)) if value is None else value)
    return whole if len(whole) <= _SHOWN else f"{whole[:_SHOWN]}..."
