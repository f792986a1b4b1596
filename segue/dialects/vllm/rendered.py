"""What vLLM's /render puts beside the tokens, for who parses the answer. It has no effect here; types are checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from segue.bounds import MAX_TEXT_CHARS
from segue.dialects.fields.kinds import AnyObject, Boolean, Kind, LaxFlag, Mismatch, Text, Word
from segue.dialects.vllm.kinds import LaxEndless, whole


@dataclass(frozen=True)
class Members:
    """An object, of whose members these have kinds."""

    kinds: Mapping[str, Kind]
    required: frozenset[str] = frozenset()
    nullable: frozenset[str] = frozenset()
    is_closed: bool = False  # no other members

    def read(self, value: Any) -> Any:
        for name in self.required - AnyObject().read(value).keys():
            raise Mismatch("given", None, f".{name}")
        for name, inner in value.items():
            if name in self.kinds and not (inner is None and name in self.nullable):
                self._read(name, inner)
            elif self.is_closed and name not in self.kinds:
                raise Mismatch(f"an object of {', '.join(self.kinds)}", value)
        return value

    def _read(self, name: str, inner: Any) -> None:
        try:
            self.kinds[name].read(inner)
        except Mismatch as wrong:
            raise wrong.inside(f".{name}") from None

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                name: {"anyOf": [kind.schema(), {"type": "null"}]}
                if name in self.nullable
                else kind.schema()
                for name, kind in self.kinds.items()
            },
            "required": sorted(self.required),
            "additionalProperties": not self.is_closed,
        }


@dataclass(frozen=True)
class Each:
    """A list whose entries are of one kind."""

    kind: Kind

    def read(self, value: Any) -> Any:
        if type(value) is not list:
            raise Mismatch("a list", value)
        for i, entry in enumerate(value):
            try:
                self.kind.read(entry)
            except Mismatch as wrong:
                raise wrong.inside(f"[{i}]") from None
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.kind.schema()}


class Offsets:
    """Where each token begins and ends: pairs of integers."""

    def read(self, value: Any) -> Any:
        if type(value) is not list:
            raise Mismatch("a list of pairs of integers", value)
        is_plain = set(map(type, value)) <= {list} and set(map(len, value)) <= {2}
        if not is_plain or not set(map(type, chain.from_iterable(value))) <= {int}:
            for i, pair in enumerate(value):
                _check_pair(pair, f"[{i}]")
        return value

    def schema(self) -> dict[str, Any]:
        pair = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
        return {"type": "array", "items": pair}


def _check_pair(pair: Any, at: str) -> None:
    is_pair = type(pair) is list and len(pair) == 2
    if not is_pair or not all(type(whole(edge)) is int for edge in pair):
        raise Mismatch("two integers", pair, at)


_TEXT = Text(MAX_TEXT_CHARS)
_FLAG = LaxFlag(Boolean())
_NAMED = Members({"name": _TEXT}, required=frozenset({"name"}))
_DECLARED = Members(
    {
        "name": _TEXT,
        "description": _TEXT,
        "parameters": AnyObject(),
        "strict": _FLAG,
        "defer_loading": _FLAG,
    },
    required=frozenset({"name"}),
    nullable=frozenset({"description", "parameters", "strict", "defer_loading"}),
)


def _function_of(kind: Kind) -> Members:
    return Members(
        {"type": Word("function", unset=None), "function": kind, "defer_loading": _FLAG},
        required=frozenset({"function"}),
        nullable=frozenset({"defer_loading"}),
    )


class ToolChoice:
    """none, auto, required, or a function by its name."""

    def read(self, value: Any) -> Any:
        return (_CHOSEN if type(value) is dict else _MODE).read(value)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [_MODE.schema(), _CHOSEN.schema()]}


_MODE = Word("none", "auto", "required", unset=None)
_CHOSEN = _function_of(_NAMED)

# What a newer /render adds is passed by, as vLLM does.
PARSE_CONTEXT = Members(
    {
        "tools": Each(_function_of(_DECLARED)),
        "tool_choice": ToolChoice(),
        "parallel_tool_calls": _FLAG,
        "include_reasoning": _FLAG,
        "chat_template_kwargs": AnyObject(),
        "history_tool_call_cnt": LaxEndless(0),
    },
    nullable=frozenset({"tools", "tool_choice", "parallel_tool_calls"}),
)
REASONING = Members({"chat_template_kwargs": AnyObject()}, is_closed=True)
