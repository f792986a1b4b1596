"""`segue verify`: checks that a request gives the same bytes here as on the machine of its receipt."""

import sys
from pathlib import Path
from typing import Any

import click

from segue import config, imports
from segue.assembly.ahead import worker_ahead
from segue.commands import receipts
from segue.commands.folding import Chunk
from segue.commands.help_sections import Sectioned
from segue.commands.options import only, refuse_beside_url, with_engine
from segue.logs import printable


@click.command(cls=Sectioned)
@click.argument("receipt", type=click.Path(path_type=Path))
@click.option(
    "--url",
    help="use this server, with the key from SEGUE_API_KEY; without --url the model runs here",
)
@with_engine
def verify(
    receipt: Path, url: str | None, config_file: Path | None, models: str | None, **flags: Any
) -> None:
    """Send the request of RECEIPT again, and compare every byte. Exits with 1 if the answers differ."""
    kept = receipts.read(receipt)
    body: Chunk = {**kept["request"], **receipts.REPORTS}
    if url:
        refuse_beside_url(flags, config_file)
        body |= {"model": models} if models else {}
    settings = None if url else config.load({**flags, "models": only(models)}, file=config_file)
    with worker_ahead(settings, is_brief=True) as worker:
        with imports.many():
            from segue.commands.running import asking, writing
        answer = writing.write(asking.chunks(body, url, settings, worker), is_quiet=True)
    was, now = kept.get("system_fingerprint"), answer.fingerprint
    difference = receipts.first_difference(kept, answer)
    if difference is None:
        size = sum(len(text.encode()) for text in answer.texts)
        tokens = sum(len(said.tokens) for said in answer.choices.values())
        click.echo(f"same bytes: {size} bytes, {tokens} tokens; computed by {printable(str(now))}")
        return
    of_choice = f" of choice {difference.choice + 1}" if len(answer.choices) > 1 else ""
    click.echo(f"different from token {difference.token + 1}{of_choice} on:")
    click.echo(f"  it was  {difference.was!r}\n  it is   {difference.now!r}")
    click.echo(printable(receipts.why(was, now)))
    sys.exit(1)
