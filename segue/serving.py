"""`segue serve`: reads the settings; assembly.py puts the parts together."""

import asyncio
import gc
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from segue import assembly, config, logs
from segue.commands.banner import banner
from segue.commands.options import with_settings
from segue.dialects import DIALECTS
from segue.engine.process.fleet import Fleet
from segue.errors import SetupError
from segue.models.progress import Report, shown, silent
from segue.server import listen
from segue.server.app import create_app
from segue.server.tracing import exporting


@click.command()
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
    with exporting(settings.otlp_endpoint) as trace, shown(Console(stderr=True)) as report:
        fleet = assembly.build_fleet(settings, report)
        app = create_app(fleet, DIALECTS, root=settings.dialect, policy=policy, trace=trace)
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
    """Accept connections at once (health answers 503), load the models, then print one line."""
    serving = asyncio.create_task(server.serve([listener]))
    loading = asyncio.create_task(_load(fleet, settings, listen.address(listener), report))
    await asyncio.wait([serving, loading], return_when=asyncio.FIRST_COMPLETED)
    if _failure(loading) is not None:
        server.should_exit = True
    await serving
    if not loading.done():
        loading.cancel()
        await asyncio.wait([loading])
    elif (error := _failure(loading)) is not None:
        raise error


def _failure(task: "asyncio.Task[None]") -> BaseException | None:
    """A load that is cancelled because the server stops is not a failure."""
    return task.exception() if task.done() and not task.cancelled() else None


async def _load(fleet: Fleet, settings: config.Settings, address: str, report: Report) -> None:
    first, *others = fleet.members
    report(f"Loading {first}", 0, 0)
    engine = await fleet.open(first)
    report(f"Loading {first}", 1, 1)
    if settings.preload:
        for name in others:
            await fleet.open(name)
    gc.collect()
    gc.freeze()  # these objects stay: garbage collection must not delay streams by visiting them
    info = engine.info
    click.echo(f"segue is ready: {address}  model {info.name}  runner {info.runner}", err=True)
    click.echo(banner(info, settings, address), err=True)
