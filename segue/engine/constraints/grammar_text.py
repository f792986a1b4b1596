"""Every kind of constraint as the one text that llguidance compiles, with limits on what is let in."""

from collections.abc import Callable
from typing import Any

import msgspec

from segue.engine.constraints import gbnf, lark_check
from segue.engine.constraints.grammar import GrammarError
from segue.engine.constraints.lark_text import quoted, to_lark
from segue.engine.constraints.schemas.options import read_options, slashed
from segue.engine.constraints.schemas.schema_text import schema_text
from segue.engine.constraints.schemas.values import Json, read_json
from segue.types import Constraint, ConstraintKind

MAX_CHOICES = 10_000
MAX_CHARS: dict[ConstraintKind, int] = {
    "json_schema": 262_144,
    "json_object": 0,
    "regex": 16_384,
    "choice": 262_144,
    "gbnf": 65_536,
    "lark": 65_536,
    "grammar": 65_536,
    "llguidance": 262_144,
    "structural_tag": 262_144,
}


def grammar_text(constraint: Constraint) -> str:
    """Raises GrammarError with what is wrong."""
    value, most = constraint.value, MAX_CHARS[constraint.kind]
    texts = (value,) if isinstance(value, str) else value
    size = sum(map(len, texts))
    if size > most > 0:
        raise GrammarError(f"it has {size} characters; at most {most} are accepted")
    if not size and constraint.kind not in ("json_object", "choice"):
        raise GrammarError("it is empty")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise GrammarError("it holds half a character: a lone surrogate") from None
    return _WRITERS[constraint.kind](constraint)


def _text(constraint: Constraint) -> str:
    if not isinstance(constraint.value, str):
        raise GrammarError("it must be one text")
    return constraint.value


def _json_schema(constraint: Constraint) -> str:
    return _grammars({"lark_grammar": _schema(read_json(_text(constraint)), constraint)})


def _json_object(constraint: Constraint) -> str:
    return _grammars({"lark_grammar": _schema({"type": "object"}, constraint)})


def _schema(schema: Json, constraint: Constraint) -> str:
    if not isinstance(schema, bool | dict):
        raise GrammarError("the schema must be a JSON object")
    return schema_text(schema, read_options(schema, constraint.whitespace, constraint.lenient))


def _regex(constraint: Constraint) -> str:
    return _grammars({"lark_grammar": f"start: /{slashed(_text(constraint))}/"})


def _choice(constraint: Constraint) -> str:
    texts = constraint.value
    if isinstance(texts, str) or not texts:
        raise GrammarError("it must be a list of at least one text")
    if len(texts) > MAX_CHOICES:
        raise GrammarError(f"it has {len(texts)} texts; at most {MAX_CHOICES} are accepted")
    if not any(texts):
        raise GrammarError("its texts are all empty")
    # In capitals, so that the texts are one lexeme: then none hides another that it begins with.
    return _grammars({"lark_grammar": f"start: ONE\nONE: {' | '.join(map(quoted, texts))}"})


def _gbnf(constraint: Constraint) -> str:
    return _grammars({"lark_grammar": to_lark(gbnf.parse(_text(constraint)))})


def _lark(constraint: Constraint) -> str:
    return _grammars({"lark_grammar": _checked_lark(_text(constraint), constraint)})


def _checked_lark(text: str, constraint: Constraint) -> str:
    """The grammar, with the schemas in it compiled here."""
    lark_check.check(text)
    return lark_check.replaced(text, lambda schema: _nested(schema, constraint))


def _nested(schema: Json, constraint: Constraint) -> str:
    return f"%lark {{\n{_schema(schema, constraint)}}}"


def _grammar(constraint: Constraint) -> str:
    return (_gbnf if "::=" in _text(constraint) else _lark)(constraint)


def _llguidance(constraint: Constraint) -> str:
    whole = read_json(_text(constraint), "it")
    grammars = whole.get("grammars") if isinstance(whole, dict) else None
    if not isinstance(grammars, list) or not grammars:
        raise GrammarError('it must be {"grammars": [...]} with at least one grammar')
    found: list[dict[str, Any]] = []
    for grammar in grammars:
        if not isinstance(grammar, dict):
            raise GrammarError("each of its grammars must be a JSON object")
        own = dict(grammar)
        if isinstance(lark := own.get("lark_grammar"), str):
            own["lark_grammar"] = _checked_lark(lark, constraint)
        if (inline := own.pop("json_schema", None)) is not None:
            own["lark_grammar"] = _schema(inline, constraint)
        found.append(own)
    return _grammars(*found)


class _Tag(msgspec.Struct):
    begin: str
    schema: dict[str, Any]
    end: str


class _Tags(msgspec.Struct):
    structures: list[_Tag]
    triggers: list[str]


def _structural_tag(constraint: Constraint) -> str:
    """Any text; where a trigger appears, one of the tags that begin with it must go on, and hold its schema."""
    text = _text(constraint)
    whole = read_json(text, "it")
    try:
        tags = msgspec.convert(whole, _Tags)
    except msgspec.ValidationError as error:
        raise GrammarError(
            f"it must be an object with structures (each begin, schema, end) and triggers: {error}"
        ) from None
    lines = ["TEXT: /(.|\\n)*/"]
    for number, tag in enumerate(tags.structures):
        trigger = next((t for t in tags.triggers if t and tag.begin.startswith(t)), None)
        if trigger is None:
            raise GrammarError(f"no trigger begins {tag.begin!r}")
        body = _nested(tag.schema, constraint)
        rest = tag.begin[len(trigger) :]
        lines.append(f"trigger{number}[lazy]: TEXT {quoted(trigger)}")
        lines.append(f"tag{number}: trigger{number} {quoted(rest)} {body} {quoted(tag.end)}")
    if not tags.structures:
        raise GrammarError("it has no structures")
    options = " | ".join(f"tag{number}" for number in range(len(tags.structures)))
    main = "\n".join([f"start: ({options})* TEXT", *lines])
    return _grammars({"lark_grammar": main})


def _grammars(*grammars: dict[str, Any]) -> str:
    return msgspec.json.encode({"grammars": grammars}).decode()


_WRITERS: dict[ConstraintKind, Callable[[Constraint], str]] = {
    "json_schema": _json_schema,
    "json_object": _json_object,
    "regex": _regex,
    "choice": _choice,
    "gbnf": _gbnf,
    "lark": _lark,
    "grammar": _grammar,
    "llguidance": _llguidance,
    "structural_tag": _structural_tag,
}
