"""The keywords of JSON schema as a table for the documentation.

python -m segue.engine.constraints.schemas.table
"""

from segue.engine.constraints.scalars.formats import FORMATS, NUMBER_FORMATS, UNCHECKED_FORMATS
from segue.engine.constraints.schemas.assertions import ASSERTIONS
from segue.engine.constraints.schemas.expander import ANNOTATIONS, APPLICATORS, COMPANIONS

_EXACT = "exact"
_NOTES = {  # of keywords that hold other schemas
    "$ref": "into the schema itself: pointers, anchors, embedded `$id`; nothing is fetched",
    "anyOf": "",
    "oneOf": "where options overlap, what fits two of them is kept out",
    "not": "of everything in this table but what says otherwise",
    "if": "with `then` and `else`",
    "items": "a schema, or the list of older drafts",
    "additionalItems": "beside a list of `items`, or without effect in older drafts",
    "contains": "with `minContains` and `maxContains`; no more than three at once",
    "uniqueItems": "`false`, or beside `maxItems: 1`; `true` is refused otherwise, and so is its opposite",
    "properties": "in the order of the schema, those of free names behind them",
    "patternProperties": "patterns may overlap, up to six in one object",
    "propertyNames": "not its opposite",
    "unevaluatedItems": "not its opposite",
    "unevaluatedProperties": "not its opposite",
}
_REFUSED = {
    "$dynamicRef": "write `$ref`",
    "$recursiveRef": "write `$ref`",
    "$vocabulary": "",
    "nullable": 'write `type: [..., "null"]`',
    "discriminator": "a `const` in each option says it",
}


def markdown() -> str:
    notes = {name: keyword.note for name, keyword in ASSERTIONS.items()}
    notes |= {name: _NOTES.get(name, "") for name in [*APPLICATORS, *sorted(COMPANIONS)]}
    lines = ["| keyword | | |", "|---|---|---|"]
    lines += [f"| `{name}` | {_EXACT} | {note} |" for name, note in notes.items()]
    annotations = ", ".join(f"`{name}`" for name in sorted(ANNOTATIONS))
    lines.append(f"| {annotations}, `x-...` | no effect | they say nothing about values |")
    lines += [f"| `{name}` | refused | {note} |" for name, note in _REFUSED.items()]
    lines.append("| any other | refused | a misspelt keyword would leave the output free |")
    formats = ", ".join(f"`{name}`" for name in [*FORMATS, *NUMBER_FORMATS])
    unchecked = ", ".join(f"`{name}`" for name in sorted(UNCHECKED_FORMATS))
    lines += ["", f"Formats: {formats}. {unchecked} allow everything. Any other is refused."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
