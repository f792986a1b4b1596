"""How a schema is to be written: spaces, separators, escapes, and what to do about what cannot be enforced."""

from dataclasses import dataclass
from typing import Literal

import msgspec

from segue.engine.constraints.grammar import GrammarError
from segue.engine.constraints.scalars.strings import ALL_ESCAPES, literal, quoted
from segue.engine.constraints.schemas.values import Json

# One space, or a line break with some indentation: enough to be pretty, too little to go on for ever.
WHITESPACE = r"[ ]|\n[ \t]{0,40}"
MAX_ANY_ORDER = 6  # properties: there is a rule for each set of those that are written
FLEXIBLE = r"[\x20\x0A\x0D\x09]+"


@dataclass(frozen=True, kw_only=True)
class Options:
    whitespace: str | None = WHITESPACE  # a regular expression; None for none
    item_separator: str = ","
    key_separator: str = ":"
    escapes: str = ALL_ESCAPES
    is_lenient: bool = False
    one_of_is_any_of: bool = False
    asserts_format: bool = True
    excludes: tuple[str, ...] = ()  # from strings and names, as they are written
    any_order: bool = False  # of an object's properties, where they are few enough
    max_digits: int | None = None  # of each part of a number, where its bounds have no more

    def but_excluded(self, terminal: str) -> str:
        """The terminal, without texts that hold what is excluded."""
        if not self.excludes:
            return terminal
        holding = "|".join(map(literal, self.excludes))
        return f"({terminal}) & ~/(?s:.*)(?:{holding})(?s:.*)/"

    def is_excluded(self, value: Json) -> bool:
        """Whether a string or name in it holds what is excluded."""
        match value:
            case str():
                return any(each in quoted(value, self.escapes)[1:-1] for each in self.excludes)
            case list():
                return any(map(self.is_excluded, value))
            case dict():
                return any(self.is_excluded(part) for item in value.items() for part in item)
        return False


def slashed(source: str) -> str:
    """A regular expression between slashes: only these two must not stand there as they are."""
    escaped: list[str] = []
    is_escaped = False
    for c in source:
        if c == "\n":
            escaped.append("n" if is_escaped else "\\n")
        else:
            escaped.append("\\/" if c == "/" and not is_escaped else c)
        is_escaped = c == "\\" and not is_escaped
    if is_escaped:
        raise GrammarError("the regular expression ends in a lone backslash")
    return "".join(escaped)


class _Guidance(msgspec.Struct, forbid_unknown_fields=True):
    """A schema's own options, at its top under `x-guidance`."""

    whitespace_flexible: bool = True
    whitespace_pattern: str | None = None
    item_separator: str = ","
    key_separator: str = ":"
    coerce_one_of: bool = False
    lenient: bool = False
    format: Literal["assertion", "annotation"] = "assertion"
    json_allowed_escapes: str = ALL_ESCAPES


def read_options(schema: Json, whitespace: str | None, is_lenient: bool) -> Options:
    """`whitespace`: the caller's wish, empty for none; the schema's own goes before it."""
    own = schema.get("x-guidance", {}) if isinstance(schema, dict) else {}
    try:
        guidance = msgspec.convert(own, _Guidance)
    except msgspec.ValidationError as error:
        raise GrammarError(f"x-guidance: {error}") from None
    spaces: str | None = WHITESPACE if whitespace is None else whitespace or None
    if guidance.whitespace_pattern is not None:
        spaces = guidance.whitespace_pattern or None
    elif "whitespace_flexible" in own:
        spaces = FLEXIBLE if guidance.whitespace_flexible else None
    if set(guidance.json_allowed_escapes) - set(ALL_ESCAPES):
        raise GrammarError(f"x-guidance: json_allowed_escapes may hold {ALL_ESCAPES}")
    return Options(
        whitespace=spaces,
        item_separator=guidance.item_separator,
        key_separator=guidance.key_separator,
        escapes=guidance.json_allowed_escapes,
        is_lenient=is_lenient or guidance.lenient,
        one_of_is_any_of=guidance.coerce_one_of,
        asserts_format=guidance.format == "assertion",
    )
