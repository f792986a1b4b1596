"""Settings as flags: each row of the table in config.py is an option. Defaults are there, and only told here."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from segue import config
from segue.commands.shell_completion import dialect_names, files
from segue.setting import AUTO, Kind, Setting

Command = Callable[..., Any]

_METAVARS: dict[Kind, str] = {"int": "N", "float": "N", "path": "PATH"}

# What a shell completes where a setting is text; paths are files.
_COMPLETED = {
    "dialect": dialect_names,
    "lora": files,
    "draft": files,
    "generation_config": files,
}

_FILE_HELP = "a file of settings in TOML, such as segue serve --print-config writes"

# Settings of commands that run a model without serving it.
_RUNNING = (
    "engine",
    "vllm_options",
    "runner",
    "threads",
    "context_length",
    "kv_memory_mib",
    "kv_type",
    "cpu_flavour",
    "num_slots",
    "chunk_rows",
    "cache_dir",
)


def with_settings(command: Command) -> Command:
    """Every setting, and the models to serve as arguments."""
    command = _with_rows(command, [row for row in config.TABLE if row.flag])
    return click.argument("models", nargs=-1, shell_complete=files)(command)


def with_engine(command: Command) -> Command:
    """The settings of one engine, and the model it runs."""
    command = with_engine_settings(command)
    help = "PATH.gguf or OWNER/REPO[:QUANT]; none: the embedded one"
    option = click.option("--model", "models", type=click.STRING, help=help, shell_complete=files)
    return option(command)


def with_engine_settings(command: Command) -> Command:
    """The settings of one engine, for a command whose argument is the model."""
    return _with_rows(command, [row for row in config.TABLE if row.name in _RUNNING])


def only(model: str | None) -> tuple[str, ...]:
    """The model of a command that runs one, as a setting. Not as text, which is several where it has commas."""
    return () if model is None else (model,)


def with_cache(command: Command) -> Command:
    """The folder of the cache, for a command that runs no model."""
    return _with_rows(command, [row for row in config.TABLE if row.name == "cache_dir"])


def refuse_beside_url(flags: Mapping[str, Any], config_file: Path | None) -> None:
    """Raise UsageError for settings of an engine where a server answers, which has its own. `flags`: by name."""
    given = [row.flag for row in config.TABLE if flags.get(row.name) not in (None, ())]
    given += ["--config"] if config_file is not None else []
    if given:
        raise click.UsageError(
            f"{given[0]} is for a model that runs here; the server of --url has settings of its own."
        )


def _with_rows(command: Command, rows: list[Setting]) -> Command:
    for row in reversed(rows):
        command = _option(row)(command)
    kind = click.Path(path_type=Path)
    return click.option("--config", "config_file", type=kind, help=_FILE_HELP)(command)


def _option(row: Setting) -> Callable[[Command], Command]:
    if row.kind == "bool":
        flags = f"{row.flag}/--no-{row.flag[2:]}"
        return click.option(flags, row.name, default=None, help=row.help + _default(row))
    kind = click.Choice(row.choices) if row.choices else click.STRING
    is_list = row.kind == "list"
    return click.option(
        row.flag,
        row.name,
        type=kind,
        metavar=_METAVARS.get(row.kind),
        multiple=is_list,
        help=row.help + ("; repeatable" if is_list else "") + _default(row),
        shell_complete=files if row.kind == "path" else _COMPLETED.get(row.name),
    )


def _default(row: Setting) -> str:
    """What holds without the flag, in the words of click; nothing where that is nothing."""
    if row.default is None:
        return f"  [default: {AUTO}]" if AUTO in row.help else ""
    if row.default is dataclasses.MISSING or row.default in ((), ""):
        return ""
    if row.kind == "bool":
        return f"  [default: {'on' if row.default else 'off'}]"
    shown = f"{row.default:g}" if row.kind == "float" else str(row.default)
    return f"  [default: {shown}]"
