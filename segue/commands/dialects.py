"""`segue dialects`: the fields of each dialect, from the tables that read requests."""

from collections.abc import Iterator, Sequence
from textwrap import fill

import click
from rich.console import Console
from rich.table import Column, Table

from segue.dialects import DIALECTS
from segue.dialects.base import Dialect
from segue.dialects.reference.sampling import sampling_markdown
from segue.dialects.reference.tables import by_table, entries, markdown, takers

NAMES = [dialect.name for dialect in DIALECTS]
_LEAST_TABLE = 110  # columns: with fewer, little is left for what a field means


@click.command()
@click.argument("name", type=click.Choice(NAMES), required=False, metavar="[NAME]")
@click.option("--markdown", "as_markdown", is_flag=True, help="everything, as in docs/dialects.md")
@click.option(
    "--sampling", is_flag=True, help="the samplers of each dialect, as in docs/sampling.md"
)
def dialects(name: str | None, as_markdown: bool, sampling: bool) -> None:
    """Print which dialect has which fields, or the fields of NAME.

    NAME is openai, llamacpp, llamafile, mistralrs, vllm, llamastack or ollama.
    """
    if as_markdown:
        click.echo(markdown(DIALECTS), nl=False)
        return
    if sampling:
        from segue.engine.sampling.sampler import STEPS  # numpy comes with it

        steps: dict[str, str] = {name: step.meaning for name, step in STEPS.items()}
        click.echo(sampling_markdown(DIALECTS, steps), nl=False)
        return
    console = Console(soft_wrap=False)
    if name is None:
        _print_matrix(console)
    elif console.width < _LEAST_TABLE:
        click.echo("\n".join(_listed(DIALECTS[NAMES.index(name)], console.width)))
    else:
        for table in _tables(DIALECTS[NAMES.index(name)]):
            console.print(table)


def _print_matrix(console: Console) -> None:
    """Whose columns have heads, or stairs where the terminal is narrow; where it is narrower yet, a list."""
    if _field_width() + sum(len(name) + 2 for name in NAMES) + 2 <= console.width:
        console.print(_matrix(NAMES, has_heads=True))
    elif _field_width() + 3 * len(NAMES) + max(map(len, NAMES)) <= console.width:
        console.print(_stairs())
        console.print(_matrix([""] * len(NAMES), has_heads=False))
    else:
        for name, taken in sorted(takers(DIALECTS).items()):
            those = [each for each, is_taken in zip(NAMES, taken, strict=True) if is_taken]
            click.echo(f"{name}\n{_indented(', '.join(those), console.width)}")


def _listed(dialect: Dialect, width: int) -> Iterator[str]:
    """The fields one under the other, for terminals that are too narrow for a table."""
    for operations, rows in by_table(dialect.operations):
        yield from (f"/{dialect.name}{operation.path}" for operation in operations)
        for entry in entries(rows):
            yield fill(", ".join((entry.name, *entry.aliases)), width)
            default = "" if entry.default in ("", "required") else "default "
            about = f"{entry.type}; {default}{entry.default}" if entry.default else entry.type
            yield _indented(about, width)
            yield _indented(entry.doc, width)


def _indented(words: str, width: int) -> str:
    return fill(words, width, initial_indent="    ", subsequent_indent="    ")


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
        field = Column("field", no_wrap=True)
        others = (Column(head, overflow="fold") for head in ("type", "default", "meaning"))
        table = Table(field, *others, title=paths, box=None)
        for entry in entries(rows):
            names = ",\n".join((entry.name, *entry.aliases))
            table.add_row(names, entry.type, entry.default, entry.doc)
        tables.append(table)
    return tables
