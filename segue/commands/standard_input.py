"""What a command reads from standard input. One that waits for a terminal without a word looks as if it hung."""

import io
import sys

import click

from segue.errors import SetupError

_END = "Ctrl-Z and Enter" if sys.platform == "win32" else "Ctrl-D"


def check_source(*, is_named: bool, usage: str) -> None:
    """Raise UsageError where a terminal would be read though nobody named it, by -. Where somebody did, say so."""
    if sys.stdin is None or not sys.stdin.isatty():
        return
    if not is_named:
        raise click.UsageError(f"There is nothing to read: {usage}.")
    click.echo(
        f"segue: reading what is typed here; {_END} at the start of a line ends it", err=True
    )


def read_text() -> str:
    """All of it. Raises SetupError where it is not UTF-8."""
    if sys.stdin is None:  # closed by whoever started this
        return ""
    try:
        content = io.BytesIO(sys.stdin.buffer.read())
        return io.TextIOWrapper(content, "utf-8").read()
    except UnicodeDecodeError as error:
        raise SetupError(f"standard input is not UTF-8: {error}") from None
