"""What a shell completes besides commands and flags: files, and the names of dialects."""

import click
from click.shell_completion import CompletionItem


def files(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Left to the shell, which knows its files."""
    return [CompletionItem(incomplete, type="file")]


def dialect_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from segue.dialects import DIALECTS  # only where one is completed: it is long to read

    names = (dialect.name for dialect in DIALECTS)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
