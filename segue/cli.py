"""The command line: `serve`, and the list of all others. It reads settings, and leaves the building to assembly."""

import asyncio
import gc
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from segue import __version__, assembly, config, logs
from segue.bench.load.command import bench
from segue.commands.banner import banner
from segue.commands.complete import complete
from segue.commands.dialects import dialects
from segue.commands.doctor import doctor
from segue.commands.models import models
from segue.commands.options import with_settings
from segue.commands.score import score
from segue.commands.shell import completion
from segue.commands.verify import verify
from segue.dialects import DIALECTS
from segue.engine.process.fleet import Fleet
from segue.errors import SegueError, SetupError
from segue.models.progress import Report, shown, silent
from segue.server import listen
from segue.server.app import create_app


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="segue")
def cli() -> None:
    """A text-completions server: one engine, six dialects."""


for command in (complete, verify, score, models, bench, doctor, dialects, completion):
    cli.add_command(command)


def main() -> None:
    """Errors of set-up are a sentence, not a traceback."""
    try:
        cli(standalone_mode=True)
    except SegueError as error:
        click.echo(f"segue: {error.message}", err=True)
        sys.exit(1)


@cli.command()
@with_settings
@click.option("--print-config", is_flag=True, help="print the settings as a file, and stop")
def serve(print_config: bool, config_file: Path | None, **flags: Any) -> None:
    """Serve MODELS over HTTP; without any, the embedded one."""
    settings = config.load(flags, file=config_file)
    if print_config:
        click.echo(settings.as_toml(), nl=False)
        return
    if settings.dialect not in {dialect.name for dialect in DIALECTS}:
        known = ", ".join(dialect.name for dialect in DIALECTS)
        raise SetupError(f"there is no dialect {settings.dialect!r}; there are: {known}")
    logs.set_up(
        settings.log_level.upper(), in_background=True, as_json=settings.log_format == "json"
    )
    policy = assembly.build_policy(settings)
    listener = listen.bind(settings.host, settings.port)
    with shown(Console(stderr=True)) as report:
        fleet = assembly.build_fleet(settings, report)
        app = create_app(fleet, DIALECTS, root=settings.dialect, policy=policy)
        server = listen.Server(
            app,
            on_stop=fleet.close,
            drain_s=settings.drain_timeout_s,
            write_timeout_s=settings.write_timeout_s,
        )
        listen.run(_serve(server, listener, fleet, settings, report))


async def _serve(
    server: listen.Server,
    listener: Any,
    fleet: Fleet,
    settings: config.Settings,
    report: Report = silent,
) -> None:
    """Accept connections at once (health says 503), load, then say so in one line."""
    serving = asyncio.create_task(server.serve([listener]))
    loading = asyncio.create_task(_load(fleet, settings, listen.address(listener), report))
    await asyncio.wait([serving, loading], return_when=asyncio.FIRST_COMPLETED)
    if loading.done() and not loading.cancelled() and loading.exception() is not None:
        server.should_exit = True
    await serving
    if not loading.done():
        loading.cancel()
        await asyncio.wait([loading])
    elif not loading.cancelled() and (error := loading.exception()) is not None:
        raise error


async def _load(fleet: Fleet, settings: config.Settings, address: str, report: Report) -> None:
    first, *others = fleet.members
    report(f"Loading {first}", 0, 0)
    engine = await fleet.open(first)
    report(f"Loading {first}", 1, 1)
    if settings.preload:
        for name in others:
            await fleet.open(name)
    gc.collect()
    gc.freeze()  # what is there to stay is not looked through while streams wait
    info = engine.info
    click.echo(f"segue is ready: {address}  model {info.name}  runner {info.runner}", err=True)
    click.echo(banner(info, settings, address), err=True)
