"""The OpenAPI document, from the same tables that read the requests."""

import re
from collections.abc import Iterable
from typing import Any

from msgspec import UNSET

from segue.dialects.base import Companion, Dialect, Framing, Operation
from segue.dialects.fields.table import Field, Table

Mount = tuple[str, Dialect, Operation | Companion]
Schema = dict[str, Any]

STREAMS: dict[Framing, str] = {
    "sse": "text/event-stream",
    "sse_open": "text/event-stream",
    "ndjson": "application/x-ndjson",
}
_PATH_PARAMETER = re.compile(r"\{(\w+)(:\w+)?\}")


def openapi(mounts: Iterable[Mount], version: str) -> dict[str, Any]:
    """The OpenAPI document of `mounts`: prefix, dialect, operation or companion."""
    paths: dict[str, dict[str, Any]] = {}
    schemas: dict[str, Schema] = {}
    tags: dict[str, str] = {}
    for prefix, dialect, end in mounts:
        path = prefix + _PATH_PARAMETER.sub(r"{\1}", end.path)
        method = end.method.lower() if isinstance(end, Companion) else "post"
        paths.setdefault(path, {})[method] = _described(prefix, dialect, end, method, schemas)
        tags[dialect.name] = dialect.system
    return {
        "openapi": "3.1.0",
        "info": {"title": "Segue", "version": version},
        "tags": [{"name": name, "description": system} for name, system in tags.items()],
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _described(
    prefix: str,
    dialect: Dialect,
    end: Operation | Companion,
    method: str,
    schemas: dict[str, Schema],
) -> dict[str, Any]:
    name = _identifier(f"{dialect.name}{end.path}")
    described: dict[str, Any] = {
        "operationId": _identifier(f"{method}{prefix}/{end.path}"),
        "tags": [dialect.name],
        "summary": end.doc,
        "parameters": [_parameter(each[0]) for each in _PATH_PARAMETER.findall(end.path)],
        "responses": _responses(end),
    }
    if method != "post":
        described["parameters"] += [_query(row) for row in end.table.rows]
    elif end.table.rows:
        schemas[name] = table_schema(end.table)
        body = {"schema": {"$ref": f"#/components/schemas/{name}"}}
        described["requestBody"] = {"required": True, "content": {"application/json": body}}
    return described


def _identifier(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_")


def _parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query(row: Field) -> dict[str, Any]:
    about = {"name": row.name, "in": "query", "required": row.required, "description": row.doc}
    return {**about, "schema": row.kind.schema()}


def _responses(end: Operation | Companion) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {}}
    if isinstance(end, Companion) and end.is_flow:
        content = {STREAMS["sse"]: {}}
    if isinstance(end, Operation) and "stream" in end.table.known:
        content[STREAMS[end.framing]] = {}
    return {
        "200": {"description": "The answer.", "content": content},
        "4XX": {"description": "The request is at fault."},
        "5XX": {"description": "The server is at fault, or not ready."},
    }


# --- tables --------------------------------------------------------------------------------------


def table_schema(table: Table) -> Schema:
    """An object with a property for every spelling; dots in a spelling become nested objects."""
    whole: Schema = {"type": "object", "properties": {}}
    for row in table.rows:
        for spelling in row.spellings:
            *groups, name = spelling.split(".")
            inside = whole
            for group in groups:
                inside = _inner(inside, group)
            inside["properties"][name] = _property(row, spelling)
        if row.required and not row.aliases:
            whole.setdefault("required", []).append(row.name)
    return whole


def _inner(schema: Schema, name: str) -> Schema:
    inner: Schema = schema["properties"].setdefault(
        name, {"type": ["object", "null"], "properties": {}}
    )
    return inner


def _property(row: Field, spelling: str) -> Schema:
    kind = row.kind.schema()
    if row.nullable and not row.required:
        kind = {"anyOf": [*kind.get("anyOf", [kind]), {"type": "null"}]}
    doc = row.doc if spelling == row.name else f"Another name of {row.name}."
    default = {} if row.default in (UNSET, None) else {"default": row.default}
    return {**kind, "description": doc, **default}
