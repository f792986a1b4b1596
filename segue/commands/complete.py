"""`segue complete`: completes one prompt and streams the text to standard output."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from segue import config, imports
from segue.assembly.ahead import worker_ahead
from segue.commands import receipts
from segue.commands.folding import Chunk
from segue.commands.foreign.flags import UnderstandingComplete
from segue.commands.options import only, refuse_beside_url, with_engine
from segue.commands.standard_input import check_source, read_text
from segue.errors import SegueError, SetupError
from segue.logs import printable, printable_json

_USAGE = 'segue complete "Once upon a time", or a text on standard input: segue complete < FILE'
_PROBABILITY = click.FloatRange(0, 1)


@click.command(cls=UnderstandingComplete)
@click.argument("prompt", required=False)
@click.option("--suffix", help="text after the gap that the answer fills")
@click.option(
    "--max-tokens",
    type=click.IntRange(-1),
    default=128,
    show_default=True,
    help="length of the answer; -1: as many as fit",
)
@click.option(
    "--temperature", type=click.FloatRange(0, 2), default=1.0, show_default=True, help="0 is greedy"
)
@click.option("--top-p", type=_PROBABILITY, help="nucleus sampling")
@click.option("--top-k", type=click.IntRange(0), help="0 is off")
@click.option("--min-p", type=_PROBABILITY, help="0 is off")
@click.option("--seed", type=int, help="the same seed gives the same text")
@click.option("--stop", multiple=True, help="text that ends the answer; may be given several times")
@click.option("-n", type=click.IntRange(1), help="number of choices, printed one after the other")
@click.option("--json-schema", help="a JSON schema that the answer must match, or @FILE")
@click.option("--regex", "guided_regex", help="a regular expression that the answer must match")
@click.option("--grammar", help="a GBNF or Lark grammar that the answer must match, or @FILE")
@click.option(
    "--logprobs", is_flag=True, help="colour each token by its probability, in a terminal"
)
@click.option("--echo", is_flag=True, help="print the prompt too")
@click.option("--json", "as_json", is_flag=True, help="print the whole answer as JSON")
@click.option("--stats", is_flag=True, help="print speed, cached tokens and seed at the end")
@click.option("--save", type=click.Path(path_type=Path), help="write a receipt for segue verify")
@click.option("--url", help="use this server instead; its key is read from SEGUE_API_KEY")
@with_engine
def complete(
    prompt: str | None,
    stop: tuple[str, ...],
    echo: bool,
    logprobs: bool,
    as_json: bool,
    stats: bool,
    save: Path | None,
    url: str | None,
    config_file: Path | None,
    models: str | None,
    **flags: Any,
) -> None:
    """Complete PROMPT. Without one, or with -, it is read from standard input, with the line break at its end.

    \b
    segue complete "Once upon a time" --model ./model.gguf
    segue complete "The capital of " --suffix " is Paris."
    segue complete "Hello" --url http://127.0.0.1:8080
    """
    _refuse_two([name for name in _CONSTRAINTS if flags[name] is not None])
    settings = {row: flags.pop(row) for row in list(flags) if row in _SETTINGS}
    if url:
        refuse_beside_url(settings, config_file)
    if save:
        receipts.check_place(save)
    given = {
        name: _read(name, _content(name, value) if name in _MAY_BE_FILES else value)
        for name, value in flags.items()
        if value is not None
    }
    stops = [_read("stop", each) for each in stop if each]
    body: Chunk = {
        "prompt": _read("prompt", _prompt(prompt, flags["suffix"])),
        **({"model": models} if url and models else {}),
        **given,
        **({"stop": stops} if stops else {}),
        **({"echo": True} if echo else {}),
        **({"logprobs": 0} if logprobs else {}),
        **receipts.REPORTS,
    }
    loaded = None if url else config.load({**settings, "models": only(models)}, file=config_file)
    with _fields_named_as_flags(), worker_ahead(loaded, is_brief=True) as worker:
        with imports.many():
            from segue.commands.running import asking, writing
        asking.parsed(body)  # errors in the request are reported before a model is loaded
        source = asking.chunks(body, url, loaded, worker)
        answer = writing.write(source, is_quiet=as_json, is_tinted=logprobs)
    asked = body.keys() - receipts.REPORTS.keys()
    if ignored := [name for name in answer.ignored if name.partition("#")[0] in asked]:
        who = "the server " if url else ""
        click.echo(f"segue: {who}ignored: {printable(', '.join(ignored))}", err=True)
    if as_json:
        click.echo(printable_json(answer.as_json()))
    if stats:
        click.echo(printable(answer.stats()), err=True)
    if save:
        receipts.write(save, receipts.make(body, answer))


_SETTINGS = {row.name for row in config.TABLE}
_CONSTRAINTS = ("json_schema", "guided_regex", "grammar")
_MAY_BE_FILES = {"json_schema", "grammar"}  # a suffix or a regular expression may begin with @


def _flag(name: str) -> str | None:
    """What the field of a request is called on the command line, if there is a flag for it."""
    options = [each for each in complete.params if isinstance(each, click.Option)]
    return next((each.opts[0] for each in options if each.name == name), None)


def _refuse_two(constraints: list[str]) -> None:
    if len(constraints) > 1:
        first, second, *_ = map(_flag, constraints)
        raise SetupError(f"{first} cannot be given together with {second}")


def _read(name: str, value: Any) -> Any:
    """The value; a text as UTF-8, whatever the locale's encoding: what that cannot read comes as half characters."""
    if not isinstance(value, str) or not any("\ud800" <= char <= "\udfff" for char in value):
        return value
    try:
        return os.fsencode(value).decode()
    except UnicodeError:
        raise SetupError(f"{_flag(name) or 'the prompt'} is not UTF-8") from None


@contextmanager
def _fields_named_as_flags() -> Iterator[None]:
    """An error about a field names the flag instead, where the message begins or a server's words do."""
    try:
        yield
    except SegueError as error:
        if error.param and (flag := _flag(error.param)):
            field = re.compile(rf"(^|: ){re.escape(error.param)}\b")
            error.message = field.sub(rf"\g<1>{flag}", error.message, count=1)
        raise


def _prompt(given: str | None, suffix: str | None) -> str:
    """The argument, or standard input. Raises SetupError where there is nothing to go on from."""
    if given is not None and given != "-":
        return given
    check_source(is_named=given is not None, usage=_USAGE)
    text = read_text()
    if not text and suffix is None:
        raise SetupError(f"standard input has no prompt: {_USAGE}")
    return text


def _content(name: str, value: str) -> str:
    """The value of the flag, or the content of the file that it names."""
    if not value.startswith("@"):
        if os.path.isfile(value):
            raise SetupError(f"{_flag(name)} is the name of a file: write @{value} to have it read")
        return value
    try:
        return Path(value[1:]).read_text(encoding="utf-8")
    except OSError as error:
        raise click.BadParameter(f"{value[1:]}: {error.strerror}", param_hint=_flag(name)) from None
    except UnicodeDecodeError as error:
        raise click.BadParameter(
            f"{value[1:]} is not UTF-8: {error}", param_hint=_flag(name)
        ) from None
