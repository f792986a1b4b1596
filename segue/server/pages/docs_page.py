"""`/docs`: every dialect on one page, made from the tables; no external resources and no scripts."""

from collections.abc import Container, Iterable, Sequence
from html import escape

from segue.dialects.base import Companion, Dialect, Operation
from segue.dialects.reference.tables import by_table, entries, shown_path
from segue.server.pages.openapi import Mount

STYLE = """\
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 20%, transparent); }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
nav a { margin-right: 1rem; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0;
         border-bottom: 1px solid var(--line); }
code { font: 13px ui-monospace, monospace; overflow-wrap: anywhere; }
summary { cursor: pointer; font-weight: 600; margin: .5rem 0; }
small { opacity: .75; }
"""


def docs_page(dialects: Sequence[Dialect], version: str, mounts: Sequence[Mount]) -> str:
    """`mounts`: what is served where; some paths are served without their dialect's prefix too."""
    bare = {id(end) for prefix, _, end in mounts if not prefix}
    links = " ".join(f'<a href="#{each.name}">{escape(each.name)}</a>' for each in dialects)
    chapters = "".join(_chapter(dialect, bare) for dialect in dialects)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Segue {escape(version)}</title>"
        '<link rel="stylesheet" href="/docs/style.css"></head><body>'
        f"<h1>Segue {escape(version)}</h1><nav>{links} "
        '<a href="/openapi.json">openapi.json</a></nav>'
        f"{chapters}</body></html>\n"
    )


def _chapter(dialect: Dialect, bare: Container[int]) -> str:
    fields = "".join(
        f"<details><summary>Fields of {_paths(dialect, operations)}</summary>"
        + _table(
            ("field", "type", "default", "meaning"),
            (
                (
                    " ".join(_code(name) for name in (entry.name, *entry.aliases)),
                    escape(entry.type),
                    _code(entry.default),
                    escape(entry.doc),
                )
                for entry in entries(table)
            ),
        )
        + "</details>"
        for operations, table in by_table(dialect.operations)
    )
    return (
        f'<section id="{dialect.name}"><h2>{escape(dialect.name)} '
        f"<small>{escape(dialect.system)}</small></h2>"
        f"{_ends(dialect, bare)}{fields}{_differences(dialect)}</section>"
    )


def _ends(dialect: Dialect, bare: Container[int]) -> str:
    ends: list[tuple[str, Operation | Companion]] = [("POST", each) for each in dialect.operations]
    ends += [(each.method, each) for each in dialect.companions]
    rows = (
        (
            method,
            _code(f"/{dialect.name}{shown_path(end.path)}"),
            _code(shown_path(end.path)) if id(end) in bare else "",
            escape(end.doc),
        )
        for method, end in ends
    )
    return _table(("method", "path", "also at", ""), rows)


def _differences(dialect: Dialect) -> str:
    if not dialect.differences:
        return ""
    items = "".join(
        f"<li>{escape(what)} <small>{escape(why)}</small></li>" for what, why in dialect.differences
    )
    return f"<details><summary>Deliberate differences</summary><ul>{items}</ul></details>"


def _paths(dialect: Dialect, operations: list[Operation]) -> str:
    return ", ".join(_code(f"/{dialect.name}{operation.path}") for operation in operations)


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>" if text else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table. Cells are HTML already."""
    names = "".join(f"<th>{name}</th>" for name in head)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{names}</tr>{lines}</table>"
