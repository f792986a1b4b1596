"""The keywords of JSON schema as a table for the documentation.

python -m segue.engine.constraints.schemas.table
"""

from collections.abc import Iterable

from segue.engine.constraints.scalars.formats import FORMATS, NUMBER_FORMATS, UNCHECKED_FORMATS
from segue.engine.constraints.schemas.keywords.assertions import ASSERTIONS
from segue.engine.constraints.schemas.keywords.expander import ANNOTATIONS, APPLICATORS, COMPANIONS

_NOTES = {  # of keywords that hold other schemas
    "$ref": "into the schema itself: pointers, anchors, embedded `$id`; nothing is fetched",
    "anyOf": "",
    "oneOf": "values that fit two options are kept out",
    "not": "of everything in this table except where a note says otherwise",
    "if": "with `then` and `else`",
    "items": "a schema, or the list form of older drafts",
    "additionalItems": "beside a list of `items`, or without effect in older drafts",
    "contains": "with `minContains` and `maxContains`; at most three at once",
    "uniqueItems": "where items have at most ten listed values, or `maxItems` is small; otherwise `true` is "
    "refused, as is its negation",
    "properties": "in the order of the schema, free names after them",
    "patternProperties": "patterns may overlap, up to six in one object",
    "propertyNames": "cannot be negated",
    "unevaluatedItems": "cannot be negated",
    "unevaluatedProperties": "cannot be negated",
}
REFUSED = {
    "$dynamicRef": "write `$ref`",
    "$recursiveRef": "write `$ref`",
    "$vocabulary": "",
}


def exact() -> dict[str, str]:
    """Every keyword that is enforced, with a note."""
    notes = {name: keyword.note for name, keyword in ASSERTIONS.items()}
    return notes | {name: _NOTES.get(name, "") for name in [*APPLICATORS, *sorted(COMPANIONS)]}


def markdown() -> str:
    notes = exact()
    annotations = _listed([*sorted(ANNOTATIONS), "x-..."])
    refused = ", ".join(
        f"`{name}`" + (f" ({note})" if note else "") for name, note in REFUSED.items()
    )
    lines = [
        f"Enforced: {_listed(name for name, note in notes.items() if not note)}; and with notes:",
        "",
        "| keyword | note |",
        "|---|---|",
        *(f"| `{name}` | {note} |" for name, note in notes.items() if note),
        "",
        f"- Accepted without effect, since they say nothing about values: {annotations}.",
        f"- Refused: {refused}, and any other, since a misspelt keyword would leave the output free.",
        f"- Formats: {_listed([*FORMATS, *NUMBER_FORMATS])}; {_listed(sorted(UNCHECKED_FORMATS))} allow everything. "
        "Any other is refused.",
    ]
    return "\n".join(lines) + "\n"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    print(markdown(), end="")
