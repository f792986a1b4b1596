"""`segue completion`, a script with which a shell completes commands and flags; and what else it completes."""

import contextlib

import click
from click.shell_completion import CompletionItem, get_completion_class

from segue import config
from segue.errors import SegueError

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL: eval "$(segue completion bash)"."""
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"there is no completion for {shell}")
    command = context.find_root().command
    click.echo(found(command, {}, "segue", "_SEGUE_COMPLETE").source())


def files(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Left to the shell, which knows its files."""
    return [CompletionItem(incomplete, type="file")]


def dialect_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from segue.dialects import DIALECTS  # only where one is completed: it is long to read

    return _beginning(incomplete, [dialect.name for dialect in DIALECTS])


def model_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Of the models on this machine, as `segue models list` names them."""
    from segue.models.inventory import local_models

    names: list[str] = []
    with contextlib.suppress(SegueError):  # of the settings: it is told once the command runs
        flags = {"cache_dir": context.params.get("cache_dir")}
        settings = config.load(flags, file=context.params.get("config_file"))
        names = [kept.name for kept in local_models(settings.cache_dir)]
    return _beginning(incomplete, names)


def names_and_files(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """A model that is here, or a file."""
    return model_names(context, parameter, incomplete) + files(context, parameter, incomplete)


def _beginning(incomplete: str, names: list[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
