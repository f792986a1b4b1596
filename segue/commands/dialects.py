"""`segue dialects`: the fields of each dialect, from the tables that read requests."""

from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Column, Table

from segue.dialects import DIALECTS
from segue.dialects.base import Dialect
from segue.dialects.reference.sampling import sampling_markdown
from segue.dialects.reference.tables import by_table, entries, markdown, takers
from segue.engine.sampling.sampler import STEPS

NAMES = [dialect.name for dialect in DIALECTS]


@click.command()
@click.argument("name", type=click.Choice(NAMES), required=False, metavar="[NAME]")
@click.option("--markdown", "as_markdown", is_flag=True, help="everything, as in docs/dialects.md")
@click.option(
    "--sampling", is_flag=True, help="the samplers of each dialect, as in docs/sampling.md"
)
def dialects(name: str | None, as_markdown: bool, sampling: bool) -> None:
    """Print which dialect has which fields; with NAME, the fields of that dialect: openai, llamacpp, llamafile,
    mistralrs, vllm, llamastack or ollama."""
    if as_markdown:
        click.echo(markdown(DIALECTS), nl=False)
        return
    if sampling:
        steps: dict[str, str] = {name: step.meaning for name, step in STEPS.items()}
        click.echo(sampling_markdown(DIALECTS, steps), nl=False)
        return
    console = Console(soft_wrap=False)
    if name is None:
        is_narrow = _field_width() + sum(len(name) + 2 for name in NAMES) + 2 > console.width
        if is_narrow:
            console.print(_stairs())
        console.print(_matrix([""] * len(NAMES) if is_narrow else NAMES, has_heads=not is_narrow))
        return
    dialect = DIALECTS[NAMES.index(name)]
    for table in _tables(dialect):
        console.print(table)


def _matrix(heads: Sequence[str], *, has_heads: bool) -> Table:
    field = Column("field", no_wrap=True, min_width=_field_width())
    table = Table(field, *heads, box=None, show_header=has_heads)
    for name, taken in sorted(takers(DIALECTS).items()):
        table.add_row(name, *("●" if is_taken else "" for is_taken in taken))
    return table


def _stairs() -> str:
    """The names of the dialects as stairs over columns of one mark, for terminals that are narrow."""
    begin = " " * (_field_width() + 1)
    return "\n".join(f"{begin}{'  │' * at}  {name}" for at, name in enumerate(NAMES))


def _field_width() -> int:
    return max(map(len, takers(DIALECTS)))


def _tables(dialect: Dialect) -> list[Table]:
    tables = []
    for operations, rows in by_table(dialect.operations):
        paths = ", ".join(f"/{dialect.name}{operation.path}" for operation in operations)
        table = Table("field", "type", "default", "meaning", title=paths, box=None)
        for entry in entries(rows):
            names = ", ".join((entry.name, *entry.aliases))
            table.add_row(names, entry.type, entry.default, entry.doc)
        tables.append(table)
    return tables
