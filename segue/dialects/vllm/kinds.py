"""Kinds of values as vLLM reads them: a number may come as text, as true or with a point."""

from dataclasses import dataclass
from typing import Any

from segue.bounds import MAX_BIAS, MAX_JSON_VALUES
from segue.dialects.fields.kinds import (
    AnyObject,
    Endless,
    LogitBias,
    Mismatch,
    NumTop,
    Text,
    TokenIds,
    lenient,
)
from segue.dialects.fields.prompt_kinds import Prompts

MAX_SALT_CHARS = 128
MAX_KEY_CHARS = 20


def whole(value: Any) -> Any:
    """An integer, also as true, as text or with a point; anything else as it is."""
    value = lenient(value)
    return int(value) if type(value) is float and value.is_integer() else value


@dataclass(frozen=True)
class LaxTokenIds:
    max_tokens: int = MAX_JSON_VALUES

    def read(self, value: Any) -> tuple[int, ...]:
        if type(value) is list and not set(map(type, value)) <= {int}:
            value = [whole(token) for token in value]
        return TokenIds(self.max_tokens).read(value)

    def schema(self) -> dict[str, Any]:
        return TokenIds(self.max_tokens).schema()


class LaxEndless(Endless):
    def read(self, value: Any) -> Any:
        return super().read(whole(value))


class StrictEndless(Endless):
    """Nor is 1.0 an integer."""

    def read(self, value: Any) -> Any:
        if type(value) is not int:
            raise Mismatch(f"an integer of at least {self.low}, without a point", value)
        return super().read(value)


class LaxTop(NumTop):
    """A number may come as text."""

    def read(self, value: Any) -> Any:
        return super().read(whole(value) if type(value) is str else value)


@dataclass(frozen=True)
class LaxPrompts:
    """An empty text is a prompt: where the model begins texts with a token, it has that one. Texts stay texts."""

    def read(self, value: Any) -> Any:
        if type(value) is list and list in set(map(type, value)):
            value = [_ids(each) if type(each) is list else each for each in value]
        elif type(value) is list:
            value = _ids(value)
        return _PROMPTS.read(value)

    def schema(self) -> dict[str, Any]:
        return _PROMPTS.schema()


_PROMPTS = Prompts(keeps_empty=True)


def _ids(values: list[Any]) -> list[Any]:
    """The long case, thousands of ids, is told apart without a loop."""
    if not set(map(type, values)) & {bool, float}:
        return values
    return [value if type(value) is str else whole(value) for value in values]


@dataclass(frozen=True)
class LaxBias:
    """As LogitBias, clamped; keys and numbers as leniently as vLLM reads them."""

    max_bias: float = MAX_BIAS

    def read(self, value: Any) -> dict[int, float]:
        if type(value) is dict:
            value = {_key(token): lenient(bias) for token, bias in value.items()}
        return LogitBias(self.max_bias, clamp=True).read(value)

    def schema(self) -> dict[str, Any]:
        return LogitBias(self.max_bias).schema()


def _key(key: str) -> str:
    """A token id as it is usually spelt: "007" and " 7" are 7."""
    return str(int(key)) if len(key) <= MAX_KEY_CHARS and key.strip().isdecimal() else key


class ExtraArgs:
    """An object of texts, numbers and lists of these."""

    def read(self, value: Any) -> Any:
        for name, inner in AnyObject().read(value).items():
            each = inner if type(inner) is list else [inner]
            if not all(isinstance(item, (str, int, float)) for item in each):
                raise Mismatch("a string, a number, or a list of these", inner, f".{name}")
        return value

    def schema(self) -> dict[str, Any]:
        one = [{"type": "string"}, {"type": "number"}]
        several = {"type": "array", "items": {"anyOf": one}}
        return {"type": "object", "additionalProperties": {"anyOf": [*one, several]}}


@dataclass(frozen=True)
class Salt:
    """vLLM keeps some characters for itself."""

    def read(self, value: Any) -> str:
        salt = Text(MAX_SALT_CHARS).read(value)
        if not salt or set(salt) & set("@/\\\0"):
            raise Mismatch("a string that is not empty and has none of @ / \\ NUL", value)
        return salt

    def schema(self) -> dict[str, Any]:
        return {**Text(MAX_SALT_CHARS).schema(), "minLength": 1}
