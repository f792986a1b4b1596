"""`segue dialects`: the fields of each dialect, from the tables that read requests."""

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
@click.argument("name", type=click.Choice(NAMES), required=False)
@click.option("--markdown", "as_markdown", is_flag=True, help="everything, as in docs/dialects.md")
@click.option(
    "--sampling", is_flag=True, help="the samplers of each dialect, as in docs/sampling.md"
)
def dialects(name: str | None, as_markdown: bool, sampling: bool) -> None:
    """Print which dialect has which fields; with NAME, the fields of that dialect."""
    if as_markdown:
        click.echo(markdown(DIALECTS), nl=False)
        return
    if sampling:
        steps: dict[str, str] = {name: step.meaning for name, step in STEPS.items()}
        click.echo(sampling_markdown(DIALECTS, steps), nl=False)
        return
    console = Console(soft_wrap=False)
    if name is None:
        console.print(_matrix())
        return
    dialect = DIALECTS[NAMES.index(name)]
    for table in _tables(dialect):
        console.print(table)


def _matrix() -> Table:
    field = Column("field", no_wrap=True, min_width=max(map(len, takers(DIALECTS))))
    table = Table(field, *NAMES, box=None)
    for name, taken in sorted(takers(DIALECTS).items()):
        table.add_row(name, *("●" if is_taken else "" for is_taken in taken))
    return table


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
