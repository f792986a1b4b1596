"""One setting: its flag, environment variable and key in a file, and which values are valid."""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import msgspec

from segue import unix_socket
from segue.errors import SetupError

AUTO = "auto"  # stands for None in a file, a variable or a flag

Kind = Literal["text", "int", "float", "bool", "list", "choice", "path"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One row of the table that flags, variables and file keys are made from."""

    name: str  # the field, and the key in a file
    flag: str  # "": given as the command's arguments
    variable: str
    kind: Kind
    help: str
    choices: tuple[str, ...]
    is_optional: bool  # may be "auto"
    hint: Any  # the type as msgspec takes it
    is_secret: bool  # never printed or logged
    has_commas: bool  # "a,b" is two in a flag too
    default: Any  # MISSING where the machine decides

    def parse(self, value: object, origin: str, from_text: bool = False) -> Any:
        """The value, as found in `origin`. From text, "8080" is a number and "a,b" a list; commas part keys in any."""
        if self.is_optional and value == AUTO:
            return None
        texts = value if isinstance(value, list | tuple) else [value]
        if self.kind == "list" and (from_text or (self.is_secret and texts is value)):
            parts = [_parts(str(text)) for text in texts]
            # A server without keys would be a surprise, as would --lora "$FILE" without FILE.
            if (self.is_secret or self.has_commas) and not all(parts):
                raise SetupError(f"{origin} is set but holds nothing between its commas")
            value = [part for each in parts for part in each]
        try:
            return msgspec.convert(value, self.hint, strict=not from_text, dec_hook=_path)
        except msgspec.ValidationError:
            shown = "what it is" if self.is_secret else repr(value)
            raise SetupError(f"{origin} must be {self.expected}, not {shown}") from None

    @property
    def expected(self) -> str:
        """The valid values, in words."""
        words = _WORDS[self.kind]
        if self.choices:
            words += ", ".join(self.choices)
        if any(meta.min_length for meta in _metas(self.hint)):
            words += " that is not empty"
        low, high = _bounds(self.hint)
        if high is not None:
            words += f" from {low} to {high}"
        return f'{words}, or "{AUTO}"' if self.is_optional else words


def said(
    help: str,
    flag: str | None = None,
    variable: str | None = None,
    is_secret: bool = False,
    has_commas: bool = False,
) -> dict[str, Any]:
    """What a field tells besides its type; flag and variable follow from its name if not given."""
    return {
        "help": help,
        "flag": flag,
        "variable": variable,
        "is_secret": is_secret,
        "has_commas": has_commas,
    }


_WORDS: dict[Kind, str] = {
    "text": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list of texts",
    "choice": "one of ",
    "path": "a path",
}
_KINDS: dict[object, Kind] = {
    str: "text",
    int: "int",
    float: "float",
    bool: "bool",
    tuple: "list",
    Literal: "choice",
    Path: "path",
}


def _bare(hint: Any) -> Any:
    """The type without `| None` and without bounds."""
    if get_origin(hint) in (Union, UnionType):
        hint = get_args(hint)[0]
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _metas(hint: Any) -> tuple[msgspec.Meta, ...]:
    if get_origin(hint) in (Union, UnionType):
        hint = get_args(hint)[0]
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _bounds(hint: Any) -> tuple[int | float | None, int | float | None]:
    return next(((meta.ge, meta.le) for meta in _metas(hint)), (None, None))


def _parts(text: str) -> list[str]:
    return [part for each in text.split(",") if (part := each.strip())]


def _path(wanted: type, value: object) -> Path:
    if not isinstance(value, str) or not value or "\0" in value:
        raise msgspec.ValidationError
    return Path(value).expanduser()


def table_of(settings: type) -> tuple[Setting, ...]:
    """One row for each field of this dataclass that says what it is."""
    hints = get_type_hints(settings, include_extras=True)
    rows = []
    for item in filter(lambda each: each.metadata, fields(settings)):
        hint, bare, said = hints[item.name], _bare(hints[item.name]), item.metadata
        kind = _KINDS[get_origin(bare) or bare]
        flag = said["flag"] if said["flag"] is not None else "--" + item.name.replace("_", "-")
        rows.append(
            Setting(
                name=item.name,
                flag=flag,
                variable=said["variable"] or "SEGUE_" + item.name.upper(),
                kind=kind,
                help=said["help"],
                choices=get_args(bare) if kind == "choice" else (),
                is_optional=type(None) in get_args(hint),
                hint=hint,
                is_secret=said["is_secret"],
                has_commas=said["has_commas"],
                default=item.default,
            )
        )
    return tuple(rows)


def as_toml(value: object) -> str:
    """A value as a TOML file writes it."""
    if value is None:
        return f'"{AUTO}"'
    if isinstance(value, tuple):
        return f"[{', '.join(as_toml(item) for item in value)}]"
    if isinstance(value, str | Path):
        # TOML's basic strings have the escapes of JSON, except that DEL must be escaped.
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def check_host(host: str, origin: str) -> None:
    """Raises SetupError for one that is written as other systems have it: HOST:PORT, [HOST] or a URL."""
    if unix_socket.path_of(host) is not None:
        return
    try:
        parts = urlsplit(host if "//" in host else f"//{host}")
        name, port = parts.hostname, parts.port
    except ValueError:  # an IPv6 address
        return
    if name and name != host.lower():
        meant = f"{name}, and port {port}" if port is not None else name
        raise SetupError(f"{origin} must be an address alone, not {host!r}: {meant}")
