"""Every system's way to say what an answer must match, as rows to pick from.

They share one target, so two of them in one request exclude each other. A constraint that is sent
must be enforced or refused, so an empty one is refused too, except where a system's clients send
an empty text for none.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET

from segue.bounds import MAX_CONSTRAINT_CHARS, MAX_CONSTRAINT_CHOICES, MAX_INT32
from segue.dialects.fields.closed_schemas import all_closed
from segue.dialects.fields.kinds import Boolean, Integer, Kind, Mismatch, Text, Texts, part
from segue.dialects.fields.table import Draft, Field, Table
from segue.types import Constraint, ConstraintKind, Trigger, TriggerKind

Read = Callable[[Any, str], Any]
"""Reads a value, given the name of its field; UNSET where it asks for nothing."""


@dataclass(frozen=True)
class Constraining:
    """A kind whose value is a constraint. `param` is the field's name, for the engine's error messages."""

    param: str
    reads: Read
    shape: Mapping[str, Any]

    def read(self, value: Any) -> Any:
        return self.reads(value, self.param)

    def schema(self) -> dict[str, Any]:
        return dict(self.shape)


def _text(kind: ConstraintKind) -> Read:
    def read(value: Any, param: str) -> Any:
        text = Text(MAX_CONSTRAINT_CHARS).read(value)
        if not text:
            reason = "an empty one cannot be enforced"
            raise Mismatch("left out or not empty", value, because=reason)
        return Constraint(kind=kind, value=text, param=param)

    return read


def _text_or_none(kind: ConstraintKind) -> Read:
    """As `_text`, but an empty text is no constraint: llama.cpp's clients send it for none."""
    reads = _text(kind)
    return lambda value, param: UNSET if value == "" else reads(value, param)


def _choice(value: Any, param: str) -> Any:
    texts = Texts(MAX_CONSTRAINT_CHOICES, MAX_CONSTRAINT_CHARS).read(value)
    if not texts:
        raise Mismatch("a list of at least one string", value)
    return Constraint(kind="choice", value=texts, param=param)


def _json_schema(value: Any, param: str) -> Any:
    """A schema, or its text."""
    if type(value) is dict:
        value = msgspec.json.encode(value).decode()
    if type(value) is not str or not value:
        raise Mismatch("a JSON schema", value)
    return Constraint(kind="json_schema", value=value, param=param)


def _schema_or_boolean(value: Any, param: str) -> Any:
    """Also true, which every value fits, and false, which none does."""
    schema = msgspec.json.encode(value).decode() if type(value) is bool else value
    return _json_schema(schema, param)


def _any_json(value: Any, param: str) -> Any:
    if value is not True:
        raise Mismatch("true or left out", value)
    return Constraint(kind="json_object", param=param)


def _encoded(kind: ConstraintKind, what: str) -> Read:
    """A constraint that is JSON itself: an object, or its text."""

    def read(value: Any, param: str) -> Any:
        text = msgspec.json.encode(value).decode() if type(value) in (dict, list) else value
        if type(text) is not str or not text:
            raise Mismatch(what, value)
        return Constraint(kind=kind, value=text, param=param)

    return read


_structural_tag = _encoded("structural_tag", "a structural tag")


# --- mistral.rs ----------------------------------------------------------------------------------

_TYPED: dict[str, Read] = {
    "regex": _text("regex"),
    "lark": _text("lark"),
    "json_schema": _schema_or_boolean,
    "llguidance": _encoded("llguidance", "an llguidance grammar"),
}


def _typed(value: Any, param: str) -> Any:
    """{"type": ..., "value": ...}."""
    if type(value) is not dict:
        raise Mismatch(f"an object with value and a type of {_any_of(_TYPED)}", value)
    kind = value.get("type")
    if kind == "none":
        return UNSET
    if type(kind) is not str or kind not in _TYPED:
        raise Mismatch(_any_of(_TYPED), kind, ".type")
    return _within(_TYPED[kind], value.get("value"), param, ".value")


def _any_of(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"


def _within(read: Read, value: Any, param: str, at: str) -> Any:
    """What stands at that place of the field; messages name it."""
    try:
        found = read(value, param)
    except Mismatch as wrong:
        raise wrong.inside(at) from None
    return msgspec.structs.replace(found, within=at) if isinstance(found, Constraint) else found


def _text_or_typed(value: Any, param: str) -> Any:
    reads = _typed if type(value) is dict else _text_or_none("grammar")
    return reads(value, param)


# --- llama.cpp -----------------------------------------------------------------------------------

_LARK_MARK = "%llguidance"


def _gbnf_or_marked_lark(value: Any, param: str) -> Any:
    """GBNF, or Lark where the text begins with its mark."""
    is_lark = type(value) is str and value.startswith(_LARK_MARK)
    return _text_or_none("lark" if is_lark else "gbnf")(value, param)


# --- OpenAI's response_format --------------------------------------------------------------------

_FORMATS = ("text", "json_object", "json_schema", "structural_tag")


def _response_format(value: Any, param: str) -> Any:
    if type(value) is not dict:
        raise Mismatch(f"an object with a type of {_any_of(_FORMATS)}", value)
    match value.get("type"):
        case "text":
            return UNSET
        case "json_object" if "schema" not in value:
            return Constraint(kind="json_object", param=param)
        case "json_object":
            return _within(_json_schema, value["schema"], param, ".schema")
        case "json_schema":
            inner = value.get("json_schema", value)
            schema = inner.get("schema") if type(inner) is dict else None
            is_flat = "schema" in value and "json_schema" not in value
            at = ".schema" if is_flat else ".json_schema.schema"
            return _within(_json_schema, schema, param, at)
        case "structural_tag":
            return _structural_tag(value, param)
    raise Mismatch(_any_of(_FORMATS), value.get("type"), ".type")


# --- vLLM's structured_outputs -------------------------------------------------------------------

_STRUCTURED: dict[str, Read] = {
    "json": _json_schema,
    "regex": _text("regex"),
    "choice": _choice,
    "grammar": _text("grammar"),
    "json_object": _any_json,
    "structural_tag": _structural_tag,
}
_STRUCTURED_FLAGS = ("disable_any_whitespace", "disable_additional_properties", "disable_fallback")
_STRUCTURED_OPTIONS = {*_STRUCTURED_FLAGS, "whitespace_pattern"}


def _structured(value: Any, param: str) -> Any:
    given = {k: v for k, v in value.items() if v is not None} if type(value) is dict else {}
    kinds = given.keys() & _STRUCTURED.keys()
    if len(kinds) != 1 or given.keys() - kinds - _STRUCTURED_OPTIONS:
        raise Mismatch(f"an object with exactly one of {', '.join(_STRUCTURED)}", value)
    (kind,) = kinds
    for flag in _STRUCTURED_FLAGS:
        _within(lambda each, _: Boolean().read(each), given.get(flag, False), param, f".{flag}")
    reads = _STRUCTURED[kind]
    if kind == "json" and given.get("disable_additional_properties"):
        reads = _closed_schema
    constraint = _within(reads, given[kind], param, f".{kind}")
    whitespace = "" if given.get("disable_any_whitespace") else given.get("whitespace_pattern")
    if whitespace is None:
        return constraint
    pattern = _within(
        lambda text, _: Text(1024).read(text), whitespace, param, ".whitespace_pattern"
    )
    return msgspec.structs.replace(constraint, whitespace=pattern)


def _closed_schema(value: Any, param: str) -> Any:
    constraint = _json_schema(value, param)
    try:
        schema = msgspec.json.decode(constraint.value)
    except msgspec.DecodeError:
        return constraint  # the compiler says what is wrong with it
    return _json_schema(msgspec.json.encode(all_closed(schema)).decode(), param)


# --- Ollama's format -----------------------------------------------------------------------------


def _format(value: Any, param: str) -> Any:
    if value == "json":
        return Constraint(kind="json_object", param=param)
    if value == "":
        return UNSET  # Ollama's clients send it for none
    if type(value) is not dict:
        raise Mismatch('"json" or a JSON schema', value)
    return _json_schema(value, param)


# --- llama.cpp's lazy grammars -------------------------------------------------------------------

_MAX_TRIGGERS = 1000
_MAX_TRIGGER_CHARS = 4096
_LAZY, _TRIGGERS = "shape.grammar_lazy", "shape.grammar_triggers"
# By their numbers.
TRIGGER_KINDS: tuple[TriggerKind, ...] = ("token", "word", "pattern", "pattern_full")
_PARTS: dict[str, Kind] = {
    "type": Integer(0, len(TRIGGER_KINDS) - 1),
    "value": Text(_MAX_TRIGGER_CHARS),
    "token": Integer(0, MAX_INT32),
}


@dataclass(frozen=True)
class Triggers:
    """[{"type": 1, "value": "<tool_call>"}, {"type": 0, "value": "", "token": 7}]"""

    def read(self, value: Any) -> tuple[Trigger, ...]:
        if type(value) is not list or len(value) > _MAX_TRIGGERS:
            raise Mismatch(f"a list of at most {_MAX_TRIGGERS} triggers", value)
        return tuple(_trigger(each, f"[{i}]") for i, each in enumerate(value))

    def schema(self) -> dict[str, Any]:
        parts = {name: kind.schema() for name, kind in _PARTS.items()}
        one = {"type": "object", "properties": parts, "required": ["type"]}
        return {"type": "array", "maxItems": _MAX_TRIGGERS, "items": one}


def _trigger(value: Any, at: str) -> Trigger:
    if type(value) is not dict:
        raise Mismatch("an object with type and value", value, at)

    def read(name: str) -> Any:
        return part(value, name, _PARTS[name], at)

    kind = TRIGGER_KINDS[read("type")]
    if kind != "token":
        return Trigger(kind, read("value"), param=f"grammar_triggers{at}")
    text = read("value") if "value" in value else ""
    return Trigger(kind, text, read("token"), f"grammar_triggers{at}")


def begin_at_trigger(draft: Draft) -> None:
    """Have the constraint hold from a trigger on, if it is lazy; else what says so has no effect."""
    constraint, triggers = draft.values.get("constraint"), draft.values[_TRIGGERS]
    if not draft.values[_LAZY] or constraint is None:
        idle = (_LAZY, _TRIGGERS)
        draft.ignored += [
            draft.given[name] for name in idle if draft.values[name] and name in draft.given
        ]
        return
    if not triggers:
        raise draft.refuse(_TRIGGERS, "must list a trigger, since grammar_lazy is true")
    draft.values["constraint"] = msgspec.structs.replace(
        constraint, triggers=triggers, preserved=draft.values["preserved"]
    )


# --- rows ----------------------------------------------------------------------------------------

_TEXT = {"type": "string", "maxLength": MAX_CONSTRAINT_CHARS}
_OBJECT = {"type": "object"}
_TYPED_SHAPE = {
    "type": "object",
    "properties": {"type": {"enum": list(_TYPED)}, "value": {}},
    "required": ["type", "value"],
}
_SCHEMA_OR_TEXT = {"anyOf": [_OBJECT, _TEXT]}
_ANY_SCHEMA = {"anyOf": [_OBJECT, _TEXT, {"type": "boolean"}]}


def row(name: str, reads: Read, shape: Mapping[str, Any], doc: str) -> Field:
    return Field(name, Constraining(name, reads, shape), doc, "constraint")


CONSTRAINTS = Table(
    (
        row(
            "grammar",
            _text_or_typed,
            {"anyOf": [_TEXT, _TYPED_SHAPE]},
            "A GBNF or Lark grammar, or mistral.rs's object with type and value.",
        ),
        row("json_schema", _schema_or_boolean, _ANY_SCHEMA, "A JSON schema."),
        row(
            "response_format",
            _response_format,
            {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]},
            "OpenAI's text, json_object or json_schema; also structural_tag.",
        ),
        row(
            "structured_outputs",
            _structured,
            {
                "type": "object",
                "properties": {name: {} for name in (*_STRUCTURED, *sorted(_STRUCTURED_OPTIONS))},
                "additionalProperties": False,
            },
            "One of json, regex, choice, grammar, json_object, structural_tag.",
        ),
        row("guided_json", _json_schema, _SCHEMA_OR_TEXT, "A JSON schema."),
        row("guided_regex", _text("regex"), _TEXT, "A regular expression."),
        row(
            "guided_choice",
            _choice,
            Texts(MAX_CONSTRAINT_CHOICES, MAX_CONSTRAINT_CHARS).schema(),
            "One of these texts.",
        ),
        row("guided_grammar", _text("grammar"), _TEXT, "A GBNF or Lark grammar."),
        row(
            "format",
            _format,
            {"anyOf": [{"enum": ["", "json"]}, _OBJECT]},
            '"json", or a JSON schema.',
        ),
    )
)

LAZY = (
    Field(
        "grammar_lazy",
        Boolean(),
        "Whether the output is free until one of grammar_triggers comes, from where the grammar or schema holds.",
        _LAZY,
        default=False,
    ),
    Field(
        "grammar_triggers",
        Triggers(),
        "From where a lazy grammar holds; types are 0 a token, 1 a text, 2 a pattern, 3 one of the whole output.",
        _TRIGGERS,
        default=(),
    ),
    Field(
        "preserved_tokens",
        Texts(_MAX_TRIGGERS, _MAX_TRIGGER_CHARS),
        "Tokens by their texts that are written in the answer even if they are control tokens.",
        "preserved",
        default=(),
    ),
)
GBNF = row(
    "grammar",
    _gbnf_or_marked_lark,
    _TEXT,
    f"A GBNF grammar, or a Lark grammar that begins with `{_LARK_MARK} {{}}`; an empty text is none.",
)
TYPED_GRAMMAR = row("grammar", _typed, _TYPED_SHAPE, "What the answer must match.")
