"""Kinds of values for prompts, suffixes and texts around a gap."""

from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from segue.bounds import MAX_PROMPTS
from segue.dialects.fields.kinds import Mismatch, token_ids
from segue.types import Infill, Prompt


@dataclass(frozen=True)
class Suffix:
    """Text that follows the answer. An empty text means that no gap is to be filled."""

    def read(self, value: Any) -> Any:
        if type(value) is not str:
            raise Mismatch("a string", value)
        return Infill(suffix=Prompt((value,), parse_special=False)) if value else UNSET

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}


@dataclass(frozen=True)
class OnePrompt:
    """One text, for systems that take no token ids and no lists."""

    may_be_empty: bool  # the rule check_prompts decides, or the model: whether it has BOS

    def read(self, value: Any) -> tuple[Prompt, ...]:
        if type(value) is not str or not (value or self.may_be_empty):
            raise Mismatch("a non-empty string", value)
        return (Prompt((value,)),)

    def schema(self) -> dict[str, Any]:
        return {"type": "string"} if self.may_be_empty else {"type": "string", "minLength": 1}


@dataclass(frozen=True)
class Prompts:
    """Text, token ids, a mix of both, or a list of such prompts. An id among the entries of the
    outer list makes the whole list one prompt; otherwise each entry is a prompt of its own."""

    keeps_empty: bool = False  # texts: where the model puts BOS in front, even they have a token
    may_be_empty: bool = False  # a text alone: the rule check_prompts decides

    def read(self, value: Any) -> tuple[Prompt, ...]:
        if type(value) is str or (type(value) is list and int in set(map(type, value))):
            return (self._one(value, ""),)
        if type(value) is not list or not value:
            raise Mismatch(self._expected, value)
        if len(value) > MAX_PROMPTS:
            raise Mismatch(f"at most {MAX_PROMPTS} prompts", value)
        return tuple(self._one(entry, f"[{i}]") for i, entry in enumerate(value))

    def _one(self, value: Any, at: str) -> Prompt:
        keeps_empty = self.keeps_empty or (self.may_be_empty and value == "")
        return Prompt(_parts(value, at, keeps_empty))

    @property
    def _expected(self) -> str:
        return "a non-empty string, a list of token ids, or a list of those"

    def schema(self) -> dict[str, Any]:
        one = {"type": "array", "items": {"type": ["string", "integer"]}}
        several = {"type": "array", "items": {"anyOf": [{"type": "string"}, one]}}
        return {"anyOf": [{"type": "string"}, one, several]}


def _parts(value: Any, at: str, keeps_empty: bool = False) -> tuple[str | tuple[int, ...], ...]:
    if type(value) is str and (value or keeps_empty):
        return (value,)
    if type(value) is not list or not value:
        raise Mismatch("a non-empty string or list of token ids", value, at)
    if set(map(type, value)) == {int}:  # the long case: thousands of ids, checked without a loop
        return (token_ids(value, at),)
    parts: list[str | tuple[int, ...]] = []
    run: list[int] = []
    for i, entry in enumerate(value):
        if type(entry) is int:
            run.append(entry)
            continue
        if type(entry) is not str:
            raise Mismatch("a token id or a string", entry, f"{at}[{i}]")
        if run:
            parts.append(token_ids(run, at))
            run = []
        if entry or (keeps_empty and i == 0):
            parts.append(entry)
    if run:
        parts.append(token_ids(run, at))
    if not parts:
        raise Mismatch("a prompt that is not empty", value, at)
    return tuple(parts)


@dataclass(frozen=True)
class MixedText:
    """Text, token ids or a mix of both, as one sequence. It may be empty."""

    max_size: int | None = None  # characters and token ids together
    keeps_empty: bool = False  # texts, as Prompts

    def read(self, value: Any) -> tuple[str | tuple[int, ...], ...]:
        if type(value) not in (str, list):
            raise Mismatch("a string, or a list of token ids and strings", value)
        is_nothing = value == [] or (value == "" and not self.keeps_empty)
        parts = () if is_nothing else _parts(value, "", self.keeps_empty)
        if self.max_size is not None and sum(map(len, parts)) > self.max_size:
            raise Mismatch(f"at most {self.max_size} characters and token ids", value)
        return parts

    def schema(self) -> dict[str, Any]:
        mix = {"type": "array", "items": {"type": ["string", "integer"]}}
        return {"anyOf": [{"type": "string"}, mix]}
