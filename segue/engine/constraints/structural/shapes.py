"""What the formats of a structural tag hold. Keys that are not known are refused."""

from typing import Annotated, Any, TypeVar

import msgspec

from segue.engine.constraints.grammar import GrammarError

T = TypeVar("T")
Some = msgspec.Meta(min_length=1)
Count = Annotated[int, msgspec.Meta(ge=0)]


def read(shape: type[T], value: Any, place: str) -> T:
    """Raises GrammarError with the place within `place` that is wrong."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        where = (place + path.removesuffix("`")).lstrip(".") or "it"
        raise GrammarError(f"{where}: {what}") from None


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    type: str = ""


class Whole(Strict):
    format: Any


class Const(Strict):
    value: str


class Schema(Strict):
    json_schema: bool | dict[str, Any]
    style: str = "json"
    any_order: bool = False
    max_whitespace_cnt: Count | None = None
    excludes: list[str] = []


class Parameter(Strict):
    json_schema: bool | dict[str, Any]


class Regex(Strict):
    pattern: str


class Grammar(Strict):
    grammar: str


class AnyText(Strict):
    excludes: list[str] = []
    max_tokens: int | None = None
    max_chars: Count | None = None


class Many(Strict):
    elements: Annotated[list[Any], Some]


class One(Strict):
    content: Any


class Repeat(Strict):
    content: Any
    min: Count
    max: Annotated[int, msgspec.Meta(ge=-1)]


class Tag(Strict):
    begin: str | dict[str, Any]
    content: Any
    end: str | dict[str, Any] | Annotated[list[str], Some]


class Triggered(Strict):
    triggers: Annotated[list[str], Some]
    tags: Annotated[list[Any], Some]
    at_least_one: bool = False
    stop_after_first: bool = False
    excludes: list[str] = []


class Separated(Strict):
    tags: Annotated[list[Any], Some]
    separator: str
    at_least_one: bool = False
    stop_after_first: bool = False


class Dispatch(Strict):
    rules: Annotated[list[tuple[str, Any]], Some]
    loop: bool = True
    excludes: list[str] = []


class Token(Strict):
    token: int | str


class ExcludeToken(Strict):
    exclude_tokens: list[int | str] = []


class AnyTokens(Strict):
    exclude_tokens: list[int | str] = []
    max_tokens: Count | None = None


class TokenTriggered(Strict):
    trigger_tokens: Annotated[list[int | str], Some]
    tags: Annotated[list[Any], Some]
    exclude_tokens: list[int | str] = []
    at_least_one: bool = False
    stop_after_first: bool = False


class TokenDispatch(Strict):
    rules: Annotated[list[tuple[int | str, Any]], Some]
    loop: bool = True
    exclude_tokens: list[int | str] = []


class Structure(msgspec.Struct, forbid_unknown_fields=True):
    begin: str
    schema: dict[str, Any]
    end: str


class Structures(Strict):
    structures: Annotated[list[Structure], Some]
    triggers: list[str]
