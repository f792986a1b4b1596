"""Every kind of constraint as the text that llguidance compiles. What is too large is refused."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from segue.engine.constraints import gbnf, lark_check
from segue.engine.constraints.grammar import GrammarError, Tokens
from segue.engine.constraints.ignored import named
from segue.engine.constraints.lark_text import quoted, to_lark
from segue.engine.constraints.lazy import whole
from segue.engine.constraints.lazy.triggers import WantedWords, wanted_words
from segue.engine.constraints.scalars.regex_groups import uncaptured, without_lookahead
from segue.engine.constraints.schemas.arguments import Arguments
from segue.engine.constraints.schemas.options import Options, read_options, slashed
from segue.engine.constraints.schemas.schema_text import Written, schema_text
from segue.engine.constraints.schemas.values import Json, read_json
from segue.engine.constraints.structural import formats
from segue.engine.constraints.structural.walking import SchemaStyle
from segue.engine.constraints.tokens import KnownTokens, TokenSets
from segue.types import Constraint, ConstraintKind

MAX_CHOICES = 10_000
_GBNF_SIGN = "::="
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


_LAZY_KINDS = frozenset({"gbnf", "json_schema", "json_object"})
_OWN_STYLE = SchemaStyle()


class GrammarText(NamedTuple):
    text: str
    ignored: tuple[str, ...]  # names of what has no effect, for the caller
    words: WantedWords | None  # before which all is free; None: what is free is part of the text
    otherwise: str | None = None  # the same, written so that the compiler does not fail on it


class _Asked(NamedTuple):
    constraint: Constraint
    known: KnownTokens | None
    is_followed: bool
    ignored: dict[str, None]  # is added to
    words: list[WantedWords]  # one is added if triggers are looked for beside the grammar

    def with_triggers(self, names_tokens: bool) -> bool:
        """Whether triggers must be part of the text: one is a pattern, or the grammar means tokens by themselves."""
        constraint = self.constraint
        if not constraint.triggers:
            return False
        known = TokenSets(self.known).known
        if not (self.is_followed or names_tokens) and known.spells_all:
            words = wanted_words(constraint.triggers, constraint.preserved, known)
            self.words.extend(() if words is None else (words,))
        return not self.words


def grammar_text(
    constraint: Constraint, known: KnownTokens | None, is_followed: bool
) -> GrammarText:
    """The text to compile. `known`: the model's tokens, of which structural tags may speak. Raises GrammarError.

    `is_followed`: triggers are part of the text, whatever they are.
    """
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
    if constraint.triggers and not _may_be_lazy(constraint):
        raise GrammarError(
            "only a grammar in GBNF and a JSON schema can begin to hold at a trigger"
        )
    asked = _Asked(constraint, known, is_followed, {}, [])
    text = _WRITERS[constraint.kind](asked)
    ignored = named(constraint.param, list(asked.ignored))
    otherwise = _regex(asked, uncaptured) if constraint.kind == "regex" else None
    return GrammarText(text, ignored, next(iter(asked.words), None), otherwise)


def _may_be_lazy(constraint: Constraint) -> bool:
    kind = constraint.kind
    return kind in _LAZY_KINDS or (kind == "grammar" and _GBNF_SIGN in constraint.value)


def _text(asked: _Asked) -> str:
    if not isinstance(asked.constraint.value, str):
        raise GrammarError("it must be one text")
    return asked.constraint.value


def _json_schema(asked: _Asked) -> str:
    return _root_schema(read_json(_text(asked)), asked)


def _json_object(asked: _Asked) -> str:
    return _root_schema({"type": "object"}, asked)


def _root_schema(schema: Json, asked: _Asked) -> str:
    written = _written(schema, asked, _OWN_STYLE)
    if not asked.with_triggers(names_tokens=False):
        return _grammars({"lark_grammar": written.text})
    rules = whole.of_schema(written.rules, asked.constraint, TokenSets(asked.known).known)
    return _grammars({"lark_grammar": to_lark(rules)})


def _schema(schema: Json, asked: _Asked, style: SchemaStyle = _OWN_STYLE) -> str:
    return _written(schema, asked, style).text


def _written(schema: Json, asked: _Asked, style: SchemaStyle) -> Written:
    written = schema_text(schema, _options(schema, asked, style))
    asked.ignored.update(dict.fromkeys(written.ignored))
    return written


def _options(schema: Json, asked: _Asked, style: SchemaStyle) -> Options:
    """`style`: of the schema's format, before what the caller asks for all."""
    if not isinstance(schema, bool | dict):
        raise GrammarError("the schema must be a JSON object")
    spaces = asked.constraint.whitespace if style.whitespace is None else style.whitespace
    options = read_options(schema, spaces, asked.constraint.lenient)
    return replace(
        options,
        excludes=style.excludes,
        any_order=style.any_order,
        max_digits=asked.constraint.max_digits,
    )


def _regex(asked: _Asked, regrouped: Callable[[str], str] = without_lookahead) -> str:
    return _grammars({"lark_grammar": f"start: /{slashed(regrouped(_text(asked)))}/"})


def _choice(asked: _Asked) -> str:
    texts = asked.constraint.value
    if isinstance(texts, str) or not texts:
        raise GrammarError("it must be a list of at least one text")
    if len(texts) > MAX_CHOICES:
        raise GrammarError(f"it has {len(texts)} texts; at most {MAX_CHOICES} are accepted")
    if not any(texts):
        raise GrammarError("its texts are all empty")
    # In capitals, so that the texts are one lexeme: then none hides another that it begins with.
    return _grammars({"lark_grammar": f"start: ONE\nONE: {' | '.join(map(quoted, texts))}"})


def _gbnf(asked: _Asked) -> str:
    rules = gbnf.parse(_text(asked), TokenSets(asked.known))
    if asked.with_triggers(any(isinstance(body, Tokens) for body in rules.values())):
        rules = whole.of_gbnf(rules, asked.constraint, TokenSets(asked.known).known)
    return _grammars({"lark_grammar": to_lark(rules)})


def _lark(asked: _Asked) -> str:
    return _grammars({"lark_grammar": _checked_lark(_text(asked), asked)})


def _checked_lark(text: str, asked: _Asked) -> str:
    """The grammar, with the schemas in it compiled here."""
    lark_check.check(text)
    return lark_check.replaced(text, lambda schema: _nested(schema, asked))


def _nested(schema: Json, asked: _Asked) -> str:
    return f"%lark {{\n{_schema(schema, asked)}}}"


def _grammar(asked: _Asked) -> str:
    return (_gbnf if _GBNF_SIGN in _text(asked) else _lark)(asked)


def read_as(constraint: Constraint) -> str:
    """For an error: which of two languages the grammar was taken for, if that was not told."""
    if constraint.kind != "grammar":
        return ""
    if _GBNF_SIGN in constraint.value:
        return f"\n(read as GBNF, since it has {_GBNF_SIGN})"
    return f"\n(read as Lark; the rules of GBNF are written NAME {_GBNF_SIGN} ...)"


def _llguidance(asked: _Asked) -> str:
    whole = read_json(_text(asked), "it")
    grammars = whole.get("grammars") if isinstance(whole, dict) else None
    if not isinstance(grammars, list) or not grammars:
        raise GrammarError('it must be {"grammars": [...]} with at least one grammar')
    found: list[dict[str, Any]] = []
    for grammar in grammars:
        if not isinstance(grammar, dict):
            raise GrammarError("each of its grammars must be a JSON object")
        own = dict(grammar)
        if isinstance(lark := own.get("lark_grammar"), str):
            own["lark_grammar"] = _checked_lark(lark, asked)
        if (inline := own.pop("json_schema", None)) is not None:
            own["lark_grammar"] = _schema(inline, asked)
        found.append(own)
    return _grammars(*found)


def _structural_tag(asked: _Asked) -> str:
    schemas = _Schemas(asked)
    rules = formats.rules_of(read_json(_text(asked), "it"), schemas, asked.known)
    for read in schemas.read:
        asked.ignored.update(dict.fromkeys(read.ignored))
    return _grammars({"lark_grammar": to_lark(rules)})


class _Schemas:
    """The schemas in a structural tag."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked
        self.read: list[Arguments] = []

    def text(self, schema: Json, style: SchemaStyle) -> str:
        return _schema(schema, self._asked, style)

    def arguments(self, schema: Json, style: SchemaStyle) -> Arguments:
        self.read.append(Arguments(schema, _options(schema, self._asked, style)))
        return self.read[-1]


def _grammars(*grammars: dict[str, Any]) -> str:
    return msgspec.json.encode({"grammars": grammars}).decode()


_WRITERS: dict[ConstraintKind, Callable[[_Asked], str]] = {
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
