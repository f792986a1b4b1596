"""`segue completion`: a script with which a shell completes commands and flags."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script for SHELL: eval "$(segue completion bash)"."""
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"there is no completion for {shell}")
    command = context.find_root().command
    click.echo(found(command, {}, "segue", "_SEGUE_COMPLETE").source())
