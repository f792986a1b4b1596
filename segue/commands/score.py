"""`segue score`: log-probabilities and perplexity of given texts, one result per line of input."""

import sys
from pathlib import Path
from typing import IO, Any

import click

from segue import config, imports
from segue.assembly.ahead import worker_ahead
from segue.commands.help_sections import Sectioned
from segue.commands.options import only, with_engine
from segue.commands.score_lines import Layout, read_subjects
from segue.commands.standard_input import check_source
from segue.logs import printable

_ENCODING = "utf-8-sig"


@click.command(cls=Sectioned)
@click.argument("file", type=click.File(encoding=_ENCODING), required=False)
@click.option(
    "--format",
    "layout",
    type=click.Choice(["auto", "lines", "jsonl"]),
    default="auto",
    help="auto: JSONL if the first line is a JSON object",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="one JSON object per line, with the score of every token",
)
@with_engine
def score(
    file: IO[str] | None,
    layout: Layout,
    as_json: bool,
    config_file: Path | None,
    models: str | None,
    **flags: Any,
) -> None:
    """Score each line of FILE, or of standard input.

    A line is text, or a JSON object: {"text": …} or {"prompt": …}, where token ids may stand for
    the text, or {"context": …, "continuation": …}, which counts the continuation alone.
    """
    if file is None:
        check_source(is_named=False, usage="segue score FILE, or lines on standard input")
        file = click.open_file("-", encoding=_ENCODING)
    subjects = read_subjects(file, layout)
    settings = config.load({**flags, "models": only(models)}, file=config_file)
    with worker_ahead(settings, is_brief=True) as worker:
        with imports.many():
            from segue.commands.running import scoring
        total = scoring.report(subjects, as_json, settings, worker)
    for refused in total.refused:
        click.echo(f"segue: line {refused.line}: {printable(refused.reason)}", err=True)
    if total.refused:
        sys.exit(1)
