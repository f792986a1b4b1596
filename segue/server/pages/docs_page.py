"""`/docs`: every dialect on one page, made from the tables; no external resources and no scripts."""

import re
from collections.abc import Container, Iterable, Sequence
from html import escape

from starlette.types import Receive, Scope, Send

from segue.dialects.base import Companion, Dialect, Operation, Reply
from segue.dialects.reference.tables import by_table, entries, shown_path
from segue.server.framing import reply_messages
from segue.server.pages.openapi import Mount
from segue.server.pages.own_address import own_address

_HTML = (("content-type", "text/html; charset=utf-8"),)

STYLE = """\
:root { color-scheme: light dark; --ground: light-dark(#fdfcfa, #16181a); --ink: light-dark(#1d2327, #e3e5e4);
        --soft: light-dark(#5b646b, #98a2a6); --line: light-dark(#dcd8d0, #2b3033);
        --accent: light-dark(#1f6f6b, #6cc6bd); }
html { scroll-padding-top: 3.5rem; }
body { font: 15px/1.5 ui-sans-serif, system-ui, "Segoe UI", "Noto Sans", sans-serif; background: var(--ground);
       color: var(--ink); margin: 0 auto; max-width: 72rem; padding: 0 1rem 4rem; }
h1, h2 { font-family: Charter, "Iowan Old Style", "Noto Serif", Georgia, serif; }
a { color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
nav { position: sticky; top: 0; background: var(--ground); border-bottom: 1px solid var(--line); padding: .6rem 0; }
nav a { margin-right: 1rem; display: inline-block; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0;
         border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; }
code { font: 13px ui-monospace, monospace; overflow-wrap: anywhere; }
pre { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; padding: .75rem; }
summary { cursor: pointer; font-weight: 600; margin: .5rem 0; }
small { color: var(--soft); }
@media (max-width: 40rem) {
  nav { position: static; }
  tr { display: block; border-bottom: 1px solid var(--line); padding: .4rem 0; }
  tr:has(th) { display: none; }
  td { display: block; border: 0; padding: 0; }
}
"""


_INTRODUCTION = """\
<p>Segue {version} answers text completions in the dialects of six systems. Each dialect has its own prefix; some of its
paths are at the root too. An unknown field does not fail: the header <code>x-segue-ignored</code> names it.</p>
<pre><code>curl -s -H 'content-type: application/json' \\
  -d '{{"prompt": "The capital of France is", "max_tokens": 8}}' {address}/v1/completions</code></pre>"""
_ADDRESS = "{address}"  # stays in the page until somebody asks for it


class DocsPage:
    """The page, made once; who asks for it sees the address by which it was reached in the example.

    `mounts`: what is served where; some paths are served without their dialect's prefix too.
    """

    def __init__(self, dialects: Sequence[Dialect], version: str, mounts: Sequence[Mount]) -> None:
        self._before, _, self._after = _page(dialects, version, mounts).partition(_ADDRESS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        page = f"{self._before}{escape(own_address(scope))}{self._after}"
        for message in reply_messages(Reply(page, headers=_HTML)):
            await send(message)


def _page(dialects: Sequence[Dialect], version: str, mounts: Sequence[Mount]) -> str:
    bare = {id(end) for prefix, _, end in mounts if not prefix}
    links = " ".join(f'<a href="#{each.name}">{escape(each.name)}</a>' for each in dialects)
    chapters = "".join(_chapter(dialect, bare) for dialect in dialects)
    introduction = _INTRODUCTION.format(version=escape(version), address=_ADDRESS)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<title>Segue: paths and fields</title>"
        '<link rel="icon" href="/play/icon.svg" type="image/svg+xml">'
        '<link rel="stylesheet" href="/docs/style.css"></head><body>'
        f'<nav><a href="/">Segue</a> {links} <a href="/openapi.json">openapi.json</a></nav>'
        f"<h1>Paths and fields</h1>{introduction}"
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
                    _prose(entry.doc),
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
            _code(f"/{dialect.name}{shown_path(end.path)}")
            + (f" or {_code(shown_path(end.path))}" if id(end) in bare else ""),
            _prose(end.doc),
        )
        for method, end in ends
    )
    return _table(("method", "path", "what it does"), rows)


def _differences(dialect: Dialect) -> str:
    if not dialect.differences:
        return ""
    items = "".join(
        f"<li>{_prose(what)} <small>{_prose(why)}</small></li>" for what, why in dialect.differences
    )
    return f"<details><summary>Deliberate differences</summary><ul>{items}</ul></details>"


def _paths(dialect: Dialect, operations: list[Operation]) -> str:
    return ", ".join(_code(f"/{dialect.name}{operation.path}") for operation in operations)


def _prose(text: str) -> str:
    """A sentence, in which backquotes are around code as in Markdown."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>" if text else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table. Cells are HTML already."""
    names = "".join(f"<th>{name}</th>" for name in head)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{names}</tr>{lines}</table>"
