"""`segue models`: lists, downloads, describes and removes models."""

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from segue import config
from segue.commands.help_sections import Sectioned
from segue.commands.options import only, with_cache, with_engine_settings
from segue.commands.shell_completion import model_names, names_and_files
from segue.errors import ModelUnavailable, SetupError
from segue.logs import printable
from segue.models import gguf, model_defaults, names, sources
from segue.models.context import DEFAULT_CONTEXT
from segue.models.inventory import LocalModel, local_models, model_facts, remove
from segue.models.model_defaults import in_words
from segue.models.progress_bars import shown

RUNNERS = ("cpu", "llama")
_UNREAD = "its vocabulary cannot be read"


# Another word for a command → the command.
_WORDS = {
    **dict.fromkeys(("remove", "delete"), "rm"),
    **dict.fromkeys(("download", "fetch"), "pull"),
    **dict.fromkeys(("describe", "info"), "show"),
    "ls": "list",
}


class _Commands(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if meant := _WORDS.get(args[0]):
            message = f"No such command {args[0]!r}: here it is segue models {meant}."
            raise click.UsageError(message, ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands)
def models() -> None:
    """List, download, describe and remove models."""


@models.command("list")
@with_cache
def list_models(config_file: Path | None, **flags: Any) -> None:
    """List the models on this machine."""
    table = Table("name", "size", "architecture", "quantisation", "infill", box=None)
    total = 0
    for kept in local_models(config.load(flags, file=config_file).cache_dir):
        total += kept.num_bytes
        try:
            about = model_facts(kept.path)
            words = about.architecture, about.quantization, _infill(about.has_fim)
        except ModelUnavailable as error:
            words = "damaged", error.message.replace(f"{kept.path}", kept.path.name), ""
        table.add_row(*map(printable, (kept.name, decimal(kept.num_bytes), *words)))
    if not table.rows:
        click.echo("There are none yet: segue models pull")
        return
    # Wider than any terminal: a name is what the other commands take, so it is never cut.
    Console(width=1000).print(table, markup=False)
    click.echo(f"{decimal(total)} in all")


@models.command()
@click.argument("model", default="default")
@with_cache
def pull(model: str, config_file: Path | None, **flags: Any) -> None:
    """Download MODEL: OWNER/REPO[:QUANT], hf:OWNER/REPO/FILE.gguf, or nothing for the embedded one."""
    cache_dir = config.load(flags, file=config_file).cache_dir
    with shown(Console(stderr=True)) as report:
        path = sources.fetch(names.parse(model), cache_dir, report)
    click.echo(f"{printable(str(path))}  {decimal(gguf.header(path).num_bytes)}")


@models.command(cls=Sectioned)
@click.argument("model", default="default", shell_complete=names_and_files)
@with_engine_settings
def show(model: str, config_file: Path | None, **flags: Any) -> None:
    """Describe MODEL, and say which runner would serve it here and why."""
    from segue.assembly.runners import choose_runner, runner_memory, runner_obstacle
    from segue.assembly.vocabulary import vocabulary_obstacle

    settings = config.load({**flags, "models": only(model)}, file=config_file)
    path = _present(model, settings.cache_dir)
    about = model_facts(path)
    unread = vocabulary_obstacle(path)
    rows = {
        "file": str(path),
        "size": f"{decimal(about.num_bytes)}, {about.num_params / 1e6:.0f} M parameters, {about.quantization}",
        "architecture": about.architecture,
        "context": f"{about.context_length} tokens"
        + _served_context(settings, about.context_length),
        "vocabulary": f"{about.vocab_size} tokens"
        + (f"; cannot be read: {unread}" if unread else ""),
        "infill": _infill(about.has_fim),
        "chat template": "yes" if about.has_template else "none",
        "sampling": _own_sampling(path),
    }
    for runner in RUNNERS:
        obstacle = runner_obstacle(runner, path, kv_type=settings.kv_type)
        if obstacle or unread:
            rows[f"runner {runner}"] = f"cannot: {obstacle or _UNREAD}"
        else:
            memory = runner_memory(runner, path, settings)
            rows[f"runner {runner}"] = f"can run it{memory}"
    try:
        chosen, why = choose_runner(settings, path, model)
        rows["served by"] = f"nothing: {_UNREAD}" if unread else chosen + why
    except SetupError as error:
        rows["served by"] = error.message
    width = max(map(len, rows))
    for name, words in rows.items():
        click.echo(f"{name:{width}}  {printable(words)}")


@models.command()
@click.argument("model", shell_complete=model_names)
@click.option("--yes", is_flag=True, help="do not ask for confirmation")
@with_cache
def rm(model: str, yes: bool, config_file: Path | None, **flags: Any) -> None:
    """Remove MODEL, as `segue models list` names it, from this machine."""
    cache_dir = config.load(flags, file=config_file).cache_dir
    kept = _local_model(model, cache_dir)
    if not yes:
        click.confirm(
            f"Remove {printable(str(kept.path))} ({decimal(kept.num_bytes)})?", abort=True
        )
    click.echo(f"{decimal(remove(kept))} are free again")


def _local_model(model: str, cache_dir: Path) -> LocalModel:
    here = list(local_models(cache_dir))
    for kept in here:
        if model == kept.name:
            return kept
    known = ", ".join(kept.name for kept in here) or "none"
    raise ModelUnavailable(f"there is no model {model} on this machine; there are: {known}")


def _served_context(settings: config.Settings, own: int) -> str:
    """How much of a model's own context is served, where that is not all of it."""
    served = settings.context_length
    if served is None:
        return (
            f"; {DEFAULT_CONTEXT} are served without --context-length"
            if own > DEFAULT_CONTEXT
            else ""
        )
    return f"; {served} are served" if own != served else ""


def _infill(has_fim: bool) -> str:
    return "FIM tokens" if has_fim else "ranked"


def _own_sampling(path: Path) -> str:
    """What the file says of sampling, and what is wrong with it."""
    found = model_defaults.of_gguf(gguf.header(path), path.name)
    words = "no defaults of its own" if found.defaults is None else in_words(found.defaults)
    return "; ".join([words, *(f"left out: {problem}" for problem in found.problems)])


def _present(model: str, cache_dir: Path) -> Path:
    """The file, if it is here: nothing is downloaded."""
    for kept in local_models(cache_dir):
        if model in (kept.name, str(kept.path)):
            return kept.path
    ref = names.parse(model)
    if ref.source == "path":
        return sources.fetch(ref, cache_dir)
    if found := sources.present(ref, cache_dir):
        return found
    raise ModelUnavailable(f"{model} is not on this machine: segue models pull {model}")
