"""Settings as flags: each row of the table in config.py is an option. Defaults are there, not here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from segue import config
from segue.setting import Setting

Command = Callable[..., Any]

# Settings of commands that run a model without serving it.
_RUNNING = (
    "engine",
    "vllm_options",
    "runner",
    "threads",
    "context_length",
    "kv_memory_mib",
    "cpu_flavour",
    "num_slots",
    "chunk_rows",
    "cache_dir",
)


def with_settings(command: Command) -> Command:
    """Every setting, and the models to serve as arguments."""
    command = _with_rows(command, [row for row in config.TABLE if row.flag])
    return click.argument("models", nargs=-1)(command)


def with_engine(command: Command) -> Command:
    """The settings of one engine, and the model it runs."""
    command = _with_rows(command, [row for row in config.TABLE if row.name in _RUNNING])
    help = "PATH.gguf or OWNER/REPO[:QUANT]; none: the embedded one"
    return click.option("--model", "models", type=click.STRING, help=help)(command)


def _with_rows(command: Command, rows: list[Setting]) -> Command:
    for row in reversed(rows):
        command = _option(row)(command)
    kind = click.Path(path_type=Path)
    return click.option("--config", "config_file", type=kind, help="settings in TOML")(command)


def _option(row: Setting) -> Callable[[Command], Command]:
    if row.kind == "bool":
        flags = f"{row.flag}/--no-{row.flag[2:]}"
        return click.option(flags, row.name, default=None, help=row.help)
    kind = click.Choice(row.choices) if row.choices else click.STRING
    is_list = row.kind == "list"
    return click.option(row.flag, row.name, type=kind, multiple=is_list, help=row.help)
