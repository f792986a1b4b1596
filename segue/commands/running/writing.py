"""The text of an answer, written to standard output while it comes.

A program gets every byte. In a terminal, a model's text steers nothing: control characters are shown as what they are.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing

import click

from segue.commands.folding import Chunk, Folding
from segue.logs import printable_lines

# Terminal colours (of 256), from likely to unlikely tokens; the first is none.
_SHADES = (None, 230, 229, 223, 222, 216, 215, 209, 203)


def write(
    source: AsyncGenerator[Chunk, None], *, is_quiet: bool = False, is_tinted: bool = False
) -> Folding:
    """The whole answer. `is_quiet`: nothing is written."""
    return asyncio.run(_write(source, is_quiet=is_quiet, is_tinted=is_tinted))


async def _write(
    source: AsyncGenerator[Chunk, None], *, is_quiet: bool, is_tinted: bool
) -> Folding:
    """The first choice as it is generated, the others after it."""
    answer, is_terminal = Folding(), sys.stdout.isatty()
    has_colours = is_tinted and is_terminal and _has_colours()
    shown = printable_lines if is_terminal else str

    def put(text: str) -> None:
        click.echo(text, nl=False, color=True)  # else it would leave out what looks like a colour

    async with aclosing(source) as chunks:
        async for chunk in chunks:
            answer.push(chunk)
            for choice in chunk.get("choices", ()):
                if choice["index"] == 0 and not is_quiet:
                    put(_tinted(choice) if has_colours else shown(choice["text"]))
    if not is_quiet:
        put("\n")
        for text in answer.texts[1:]:
            put(f"---\n{shown(text)}\n")
    return answer


def _has_colours() -> bool:
    """A terminal that is dumb, such as an editor's, shows the codes of colours as text."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", "unknown")


def _tinted(choice: Chunk) -> str:
    """The tokens in colours. If they do not join to the text, as with half characters: the plain text."""
    scored = choice.get("logprobs") or {}
    names = scored.get("tokens") or []
    if not names or "".join(names) != choice["text"]:
        return printable_lines(choice["text"])
    pairs = zip(names, scored["token_logprobs"], strict=True)
    return "".join(_shaded(printable_lines(name), logprob) for name, logprob in pairs)


def _shaded(name: str, logprob: float | None) -> str:
    bits = 0.0 if logprob is None else -logprob / 0.6931
    colour = _SHADES[max(0, min(len(_SHADES) - 1, round(bits - 0.2)))]
    return name if colour is None else click.style(name, bg=colour, fg="black")
