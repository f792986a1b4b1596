"""The command line. A command is imported only when it is used, so that help and completion in a shell are fast."""

import importlib
import io
import os
import signal
import sys
from typing import Any, NamedTuple, NoReturn

import click
from click.shell_completion import CompletionItem

from segue import __version__, imports
from segue.commands.stopping import LastAct, Stopped, take_signals
from segue.errors import SegueError, shortage


class Entry(NamedTuple):
    """A command in the list of all. `summary`: the first sentence of its own help."""

    module: str
    summary: str


COMMANDS = {
    "bench": Entry(
        "segue.bench.load.command",
        "Put load on the server at URL, and print throughput and latency.",
    ),
    "complete": Entry("segue.commands.complete", "Complete PROMPT."),
    "completion": Entry(
        "segue.commands.shell_completion",
        'Print the completion script for SHELL: eval "$(segue completion bash)".',
    ),
    "dialects": Entry(
        "segue.commands.dialects", "Print which dialect has which fields, or the fields of NAME."
    ),
    "doctor": Entry(
        "segue.commands.doctor", "Check this machine with the settings of `segue serve`."
    ),
    "models": Entry("segue.commands.models", "List, download, describe and remove models."),
    "score": Entry("segue.commands.score", "Score each line of FILE, or of standard input."),
    "serve": Entry("segue.serving", "Serve MODELS over HTTP; without any, the embedded one."),
    "verify": Entry(
        "segue.commands.verify", "Send the request of RECEIPT again, and compare every byte."
    ),
}


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        with imports.many():
            found: click.Command = getattr(
                importlib.import_module(COMMANDS[cmd_name].module), cmd_name
            )
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [
            CompletionItem(name, help=entry.summary)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from segue.commands.foreign.flags import advice

            if words := advice(args[0], COMMANDS):
                raise click.UsageError(f"No such command {args[0]!r}: {words}", ctx) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort) as error:
            # At a question, click makes an Abort of it; another Abort is an answer: no.
            cause = error.__context__ if isinstance(error, click.Abort) else error
            if not isinstance(cause, KeyboardInterrupt):
                raise
            click.echo("\nAborted!", err=True)
            raise Stopped(signal.SIGINT) from None


@click.command(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="segue")
def cli() -> None:
    """A text-completions server: one engine, six dialects.

    \b
    segue serve                         the embedded model, at http://127.0.0.1:8080/
    segue serve ./model.gguf            a file
    segue complete "Once upon a time"   without a server
    """


def main() -> None:
    """Show a SetupError, or that the system gives no more, as one sentence, not as a traceback."""
    last_act = LastAct()
    _open_what_is_closed()
    _write_utf8()
    take_signals()
    try:
        cli(standalone_mode=True)
    except Stopped as stopped:
        last_act.end_by(stopped)
        raise
    except SegueError as error:
        _end(error.message)
    except Exception as error:
        words = shortage(error) or _file_trouble(error)
        if words is None:
            raise
        _end(words)


def _open_what_is_closed() -> None:
    """A standard stream that was closed by whoever started this leads nowhere: else the next socket had its number, and
    what a library prints would be sent there."""
    for number, (name, mode) in enumerate([("stdin", "r"), ("stdout", "w"), ("stderr", "w")]):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:  # seldom: the lowest that is free is the first that was closed
                os.dup2(nowhere, number)
                os.close(nowhere)
            os.set_inheritable(number, True)  # by the worker
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _write_utf8() -> None:
    """Answers are text of any language: a pipe or a file gets UTF-8, though Windows has another encoding for those. The
    names of files may be none: they are written as they are, and for people escaped. Where PYTHONIOENCODING asks for
    another encoding, what that lacks is escaped, unless it says what to do with it."""
    if asked := os.environ.get("PYTHONIOENCODING"):
        if ":" not in asked and isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        return
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8", errors=errors)


def _file_trouble(error: Exception) -> str | None:
    """Which file could not be read or written, and why."""
    if not isinstance(error, OSError) or not error.strerror:
        return None
    if error.filename is not None:
        return f"{os.fspath(error.filename)!s}: {error.strerror}"
    return "the current folder was removed: change to another" if _is_folder_gone() else None


def _is_folder_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _end(words: str) -> NoReturn:
    """Of several lines, such as a compiler's of a grammar, those after the first are indented: none can look like
    another message."""
    from segue import logs  # the start of other commands does not wait for it

    if not logs.end_with(words):
        told = logs.printable_lines(words).replace("\n", "\n  ")
        click.echo(f"segue: {told}", err=True)
    sys.exit(1)
