"""The grammars under tests/data/constraints, each with a checker that knows nothing of ours."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import lark

from segue.types import Constraint

DATA = Path(__file__).parent.parent / "data" / "constraints"
# Formats whose checker takes exactly what the constraint lets through.
FORMATS = jsonschema.FormatChecker(("uuid", "ipv4", "email"))

Checker = Callable[[str], bool]
Case = tuple[str, Constraint, Checker]


def cases() -> Iterator[Case]:
    for path in sorted((DATA / "schemas").glob("*.json")):
        yield (
            f"schema-{path.stem}",
            _of(path, "json_schema"),
            _fits(json.loads(path.read_text("utf-8"))),
        )
    for number, regex in enumerate((DATA / "regexes.txt").read_text("utf-8").splitlines()):
        constraint = Constraint(kind="regex", value=regex, param="regex")
        yield f"regex-{number}", constraint, _matches(regex)
    for path in sorted((DATA / "gbnf").glob("*.gbnf")):
        checker = path.with_suffix(".lark")
        is_valid = _parses(checker.read_text("utf-8")) if checker.exists() else _is_json
        yield f"gbnf-{path.stem}", _of(path, "gbnf"), is_valid
    for path in sorted((DATA / "lark").glob("*.lark")):
        yield f"lark-{path.stem}", _of(path, "lark"), _parses(path.read_text("utf-8"))


def _of(path: Path, kind: str) -> Constraint:
    return Constraint(kind=kind, value=path.read_text("utf-8"), param=kind)  # type: ignore[arg-type]


def _fits(schema: Any) -> Checker:
    validator = jsonschema.Draft202012Validator(schema, format_checker=FORMATS)
    return lambda text: validator.is_valid(json.loads(text))


def _matches(regex: str) -> Checker:
    pattern = re.compile(regex)
    return lambda text: pattern.fullmatch(text) is not None


def _parses(grammar: str) -> Checker:
    parser = lark.Lark(grammar, parser="earley", lexer="dynamic_complete")

    def check(text: str) -> bool:
        try:
            parser.parse(text)
        except lark.exceptions.LarkError:
            return False
        return True

    return check


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
