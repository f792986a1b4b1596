"""The fields of each dialect, from its tables: for the command line, the page and docs/dialects.md."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from segue.dialects.base import Companion, Dialect, Operation
from segue.dialects.fields.kinds import Mismatch
from segue.dialects.fields.table import Field, Table
from segue.types import CompletionRequest, Sampling

_CORE = {
    **{field.name: field.default for field in msgspec.structs.fields(CompletionRequest)},
    **{f"sampling.{field.name}": field.default for field in msgspec.structs.fields(Sampling)},
    "stream": False,
}
MAX_DEFAULT_CHARS = 40
MAX_SHOWN_NAMES = 6
MANY = 1e6  # bounds beyond are there to keep floats finite


class Entry(NamedTuple):
    """One field in words."""

    name: str
    aliases: tuple[str, ...]
    type: str
    default: str
    doc: str


def entries(table: Table) -> list[Entry]:
    rows = sorted(table.rows, key=lambda row: not row.required)
    return [
        Entry(row.name, row.aliases, spell(row.kind.schema()), _default(row), row.doc)
        for row in rows
    ]


def _default(row: Field) -> str:
    if row.required:
        return "required"
    value = _CORE.get(row.target) if row.default is UNSET else row.default
    if value is None or not _is_as_written(row, value):
        return ""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_DEFAULT_CHARS and text not in ("{}", "[]") else ""


def _is_as_written(row: Field, value: Any) -> bool:
    """Whether a client writes the core's value as it is. Some fields have another form on the wire."""
    try:
        return bool(row.kind.read(msgspec.json.decode(msgspec.json.encode(value))) == value)
    except (Mismatch, TypeError):
        return False


def spell(schema: dict[str, Any]) -> str:
    """A JSON schema in a few words."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(spell(option) for option in schema["anyOf"]))
    if "const" in schema:
        return msgspec.json.encode(schema["const"]).decode()
    if "enum" in schema:
        if len(schema["enum"]) > MAX_SHOWN_NAMES:
            return "names"
        return " | ".join(msgspec.json.encode(value).decode() for value in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array":
        items = spell(schema["items"]) if schema.get("items") else ""
        return f"list of ({items})" if " or " in items else f"list of {items}" if items else "list"
    if isinstance(kind, list):
        return " or ".join(kind)
    return str(kind) + _bounds(schema)


def _bounds(schema: dict[str, Any]) -> str:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", MANY)
    if low is None or (type(high) is float and high >= MANY and abs(low) >= MANY):
        return ""
    above = ">" if "exclusiveMinimum" in schema else ""
    return f" {above}{_number(low)} to {_number(high)}"


def _number(number: float) -> str:
    """A bound as people write it: 2^31 for 2147483647."""
    for power in (31, 32, 53, 63):
        if number in (2**power - 1, 2**power):
            return f"2^{power}"
        if number == -(2**power):
            return f"-2^{power}"
    return "any" if number == MANY else f"{number:g}"


# --- over all dialects ---------------------------------------------------------------------------


def takers(dialects: Sequence[Dialect]) -> dict[str, list[bool]]:
    """Every wire name of a completion, and which of these dialects take it."""
    known = [{name for row in _rows(dialect) for name in row.spellings} for dialect in dialects]
    names = dict.fromkeys(
        name for each in dialects for row in _rows(each) for name in row.spellings
    )
    return {name: [name in each for each in known] for name in names}


def _rows(dialect: Dialect) -> Iterator[Field]:
    for operation in dialect.operations:
        yield from operation.table.rows


Group = tuple[list[Operation], Table]


def by_table(operations: Iterable[Operation]) -> list[Group]:
    """Operations that take the same fields, together."""
    groups: dict[int, Group] = {}
    for operation in operations:
        groups.setdefault(id(operation.table), ([], operation.table))[0].append(operation)
    return list(groups.values())


# --- docs/dialects.md ----------------------------------------------------------------------------

INTRODUCTION = """\
# Dialects

<!-- Written by `segue dialects --markdown > docs/dialects.md`: change the tables in segue/dialects instead. -->

Each dialect is served under its own prefix: the base URL `http://host:8080/llamacpp/v1` is llama.cpp's.
The dialect named by `--dialect` is also served without a prefix, and so is every path that only one system has. By
default it is `openai`, which takes nearly all fields of the others, as [this table](#who-takes-what) shows.

In every dialect:

- The header `x-segue-ignored` names fields that are unknown or have no effect. They are no error, except constraints.
  It also names parts of a schema without effect, if the schema allows that ([constraints.md](constraints.md)), and a
  `model` that is not the one that is served alone (which answers to any name unless `--strict-model`).
- `x-segue-seed` is the seed that was used. The same request with that seed gives the same answer on every server that
  shows the same `system_fingerprint`, which stands for versions, model file and runner
  ([determinism.md](determinism.md)). If the fingerprint begins with `fp_varies`, only `deterministic` in `/health`
  promises anything; otherwise what else the server computes can change an answer. A server without promises
  (`--engine vllm`, unless it is `deterministic`) draws a request without a seed without one, and sends no such header.
- A field that a request leaves out has the default in the tables below, unless the server was started with another
  (`--default NAME=VALUE`, in any dialect's spelling). `max_tokens` is 16 in OpenAI's, vLLM's and Llama Stack's; in the
  others an answer may fill the context, and go on past it in Ollama's. In llama.cpp's, vLLM's and mistral.rs' dialects
  a model's own defaults come between the two, as in those systems: `general.sampling.*` of a GGUF file,
  `generation_config.json` of a folder ([defaults.md](defaults.md)). The root and the others do not depend on the model.
- `x-segue-infill` says how a gap was filled: `fim`, by the model's own tokens, or `ranked`.
- `x-segue-infill-kept` says how much of the text around the gap fitted into the context, in tokens kept of tokens
  given: `prefix=640/1210, suffix=128/300, extra=0/55`.
- `x-segue-truncated` is the number of tokens that were cut off the prompt, if the request allowed that.
- A constraint that cannot be enforced is refused with 400. So are an empty one, one that only another dialect knows
  (`json_schema` under `/vllm`, `regex` of SGLang), and two at once. What a system's clients send for no constraint is
  none: `grammar: ""` of llama.cpp, `format: ""` of Ollama, `response_format: {"type": "text"}`.
- Numbers in the tables are a dialect's own bounds; a server may allow less (`--max-n`, `--max-logprobs` and others:
  [settings.md](settings.md#bounds-of-a-request)).

## Who takes what

A dot means that the dialect knows the field, sometimes only to say that it has no effect or is refused.
"""


def markdown(dialects: Sequence[Dialect], root: str = "openai") -> str:
    """`root`: the dialect that a server has without a prefix unless it is told otherwise."""
    parts = [INTRODUCTION, _matrix(dialects)]
    parts += [_chapter(dialect, dialect.name == root) for dialect in dialects]
    return "\n".join(parts)


def _matrix(dialects: Sequence[Dialect]) -> str:
    head = ["field", *(dialect.name for dialect in dialects)]
    rows = [
        [f"`{name}`", *("●" if is_taken else "" for is_taken in taken)]
        for name, taken in sorted(takers(dialects).items())
    ]
    return as_table(head, rows)


def _chapter(dialect: Dialect, is_root: bool) -> str:
    parts = [f"## {dialect.name}: {dialect.system}\n", _paths(dialect, is_root)]
    first, *others = by_table(dialect.operations)
    parts.append(_fields(*first))
    parts += [_fields(*other, base=first) for other in others]
    if dialect.differences:
        parts.append("### Deliberate differences\n")
        parts.append("\n".join(f"- {what} *{why}*" for what, why in dialect.differences) + "\n")
    return "\n".join(parts)


def _fields(operations: list[Operation], table: Table, base: Group | None = None) -> str:
    """All fields, or only what differs from those told before."""
    parts = [f"### Fields of {_names(operations)}\n"]
    told = entries(table)
    known = entries(base[1]) if base else []
    gone = [f"`{entry.name}`" for entry in known if entry.name not in {each.name for each in told}]
    if base and len(gone) < len(known) / 2:
        without = f" without {', '.join(gone)}" if gone else ""
        parts.append(f"Those of {_names(base[0])}{without}, and:\n")
        told = [entry for entry in told if entry not in known]
    rows = [
        [f"`{entry.name}`{_also(entry)}", entry.type, _code(entry.default), entry.doc]
        for entry in told
    ]
    return "\n".join([*parts, as_table(["field", "type", "default", "meaning"], rows)])


def _names(operations: list[Operation]) -> str:
    return ", ".join(f"`{operation.path}`" for operation in operations)


def shown_path(path: str) -> str:
    """A path as people write it: /v1/models/{model}."""
    return path.replace(":path}", "}")


def _paths(dialect: Dialect, is_root: bool) -> str:
    ends: list[tuple[str, Operation | Companion]] = [("POST", each) for each in dialect.operations]
    ends += [(companion.method, companion) for companion in dialect.companions]
    rows = [
        [
            method,
            f"`/{dialect.name}{shown_path(end.path)}`",
            "yes" if end.is_native or is_root else "",
            end.doc,
        ]
        for method, end in ends
    ]
    return as_table(["method", "path", "also without prefix", ""], rows)


def _also(entry: Entry) -> str:
    return "".join(f", `{alias}`" for alias in entry.aliases)


def _code(text: str) -> str:
    return f"`{text}`" if text and text != "required" else text


def as_table(head: list[str], rows: list[list[str]]) -> str:
    """In Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
