"""What `segue serve` runs: one process, or a parent and several that serve."""

import asyncio
import gc
import logging
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.process import BaseProcess
from typing import Any

import click
from rich.console import Console

from segue import config, logs
from segue.assembly.fleet import build_fleet, build_shared_fleet, further_node, warn_of_idle
from segue.assembly.policy import build_policy, warn_if_open, warn_of_port
from segue.commands.banner import banner
from segue.commands.foreign import variables
from segue.cpus import wait_for_a_free_one
from segue.dialects import DIALECTS
from segue.engine.process.fleet import Fleet
from segue.engine.process.new_worker import NewWorker
from segue.engine.process.spawning import ignore_signals
from segue.engine.process.supervisor import DEFAULT_STEP_TIMEOUT_S
from segue.engine.seam import Models
from segue.errors import SetupError, Unavailable
from segue.models.progress import Report, silent
from segue.models.progress_bars import as_lines, shown
from segue.processes import handover, messages
from segue.processes.channel import Channel
from segue.processes.parent import Parent, Plan
from segue.processes.sharing import ALONE, Sharing
from segue.processes.worker_sockets import WorkerSockets
from segue.server.admission.admission import Trace
from segue.server.admission.ledger import Ledger
from segue.server.app import create_app
from segue.server.tracing import exporting
from segue.server.transport import listen

log = logging.getLogger("segue")

_SHORTEST_HANG_S = 30.0  # a server process is not ended for being busy for less


def run(settings: config.Settings, sockets: WorkerSockets | None, worker: NewWorker | None) -> None:
    """Until it is stopped. `sockets`: None if one process serves. `worker`: for the first model."""
    if settings.dialect not in {dialect.name for dialect in DIALECTS}:
        known = ", ".join(dialect.name for dialect in DIALECTS)
        raise SetupError(f"there is no dialect {settings.dialect!r}; there are: {known}")
    logs.set_up(
        settings.log_level.upper(), in_background=True, as_json=settings.log_format == "json"
    )
    if (compute := further_node(settings)) is not None:
        return compute()
    build_policy(settings)  # what is wrong with it is said before anything is started
    warn_if_open(settings)
    warn_of_port(settings)
    warn_of_idle(settings)
    for sentence in variables.told(os.environ):
        log.warning("%s", sentence)
    with _progress(settings) as report:
        if sockets is None:
            _serve_alone(settings, report, worker)
        else:
            with listen.listening(settings.host, settings.port) as listener:
                fleet = build_fleet(settings, report, ahead=worker, sockets=sockets)
                listen.run(_serve_several(fleet, listener, sockets, settings, report))


def _progress(settings: config.Settings) -> AbstractContextManager[Report]:
    """Where the log is JSON, programs read standard error, and every line of it is."""
    if settings.log_format == "json":
        return nullcontext(as_lines(logging.getLogger("segue").info))
    return shown(Console(stderr=True))


def _server(
    settings: config.Settings, models: Models, trace: Trace | None, sharing: Sharing = ALONE
) -> listen.Server:
    if settings.engine != "vllm":
        wait_for_a_free_one()  # the thread of the event loop, which begins here
    policy = build_policy(settings)
    if policy.keys is not None:
        policy.keys.watch()
    app = create_app(
        models, DIALECTS, root=settings.dialect, policy=policy, trace=trace, sharing=sharing
    )
    return listen.Server(
        app,
        on_stop=models.close,
        drain_s=settings.drain_timeout_s,
        write_timeout_s=settings.write_timeout_s,
        takes_signals=sharing is ALONE,
    )


# --- one process -----------------------------------------------------------------------------------


def _serve_alone(settings: config.Settings, report: Report, worker: NewWorker | None) -> None:
    with (
        listen.listening(settings.host, settings.port) as listener,
        exporting(settings.otlp_endpoint) as trace,
    ):
        fleet = build_fleet(settings, report, ahead=worker)
        server = _server(settings, fleet, trace)
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


def _failure(task: "asyncio.Future[None]") -> BaseException | None:
    """A load that ends because the server stops is not a failure."""
    error = task.exception() if task.done() and not task.cancelled() else None
    return None if isinstance(error, Unavailable) else error


async def _load(
    fleet: Fleet,
    settings: config.Settings,
    address: str,
    report: Report,
    parent: Parent | None = None,
) -> None:
    first, *others = fleet.members
    report(f"Loading {first}", 0, 0)
    looking = asyncio.create_task(_look(fleet, parent))
    engine = await fleet.open(first)
    report(f"Loading {first}", 1, 1)
    if settings.preload:
        for name in others:
            await fleet.open(name)
    await looking
    gc.collect()
    gc.freeze()  # these objects stay: garbage collection must not delay streams by visiting them
    info = engine.info
    ready = f"segue is ready: {address}  model {info.name}  runner {info.runner}"
    if parent is not None:
        await parent.is_up.wait()
        ready += f"  server processes {', '.join(map(str, parent.pids.values()))}"
    if settings.log_format == "json":
        told = logging.getLogger("segue.ready")
        told.setLevel(logging.INFO)  # whatever else is logged: programs wait for it
        told.info("%s", ready)
    else:
        click.echo(logs.printable(ready), err=True)
        click.echo(banner(info, settings, address), err=True)


async def _look(fleet: Fleet, parent: Parent | None) -> None:
    """So that pages tell of models that are not up, while they load too. A parent answers no page."""
    if parent is None:
        await fleet.look()


# --- several processes: the parent, which has the models and the socket ----------------------------


async def _serve_several(
    fleet: Fleet,
    listener: socket.socket,
    sockets: WorkerSockets,
    settings: config.Settings,
    report: Report,
) -> None:
    """The same, but server processes answer, and this one sees to them."""
    num_processes, started = settings.server_processes, int(time.time())

    def sharing(process: int) -> Sharing:
        return Sharing(
            process=process, num_processes=num_processes, folder=sockets.folder, started=started
        )

    def spawn(number: int, control: socket.socket, source: socket.socket) -> BaseProcess:
        return multiprocessing.get_context("spawn").Process(
            target=server_process,
            args=(settings, sharing(number), control, source),
            name=f"segue-server-{number + 1}",
            daemon=True,
        )

    plan = Plan(
        num_processes=num_processes,
        spawn=spawn,
        addresses=sockets.addresses,
        forget=Ledger(sharing(0)).forget,
        drain_s=settings.drain_timeout_s,
        hang_s=max(settings.step_timeout_s or DEFAULT_STEP_TIMEOUT_S, _SHORTEST_HANG_S),
    )
    address = listen.address(listener)
    parent = Parent(fleet, listener, plan)
    stopped = _on_signals(parent.stop)
    parent.start()
    loading = asyncio.create_task(_load(fleet, settings, address, report, parent))
    await asyncio.wait([loading, parent.failure, stopped], return_when=asyncio.FIRST_COMPLETED)
    if _failure(loading) is None and _failure(parent.failure) is None:
        await asyncio.wait([stopped, parent.failure], return_when=asyncio.FIRST_COMPLETED)
    await parent.stop()
    if not loading.done():
        loading.cancel()
        await asyncio.wait([loading])
    for task in (loading, parent.failure):
        if (error := _failure(task)) is not None:
            raise error


def _on_signals(stop: Callable[[], Any]) -> "asyncio.Future[None]":
    """Done at the first SIGINT or SIGTERM. Each further one calls `stop` again."""
    loop = asyncio.get_running_loop()
    first: asyncio.Future[None] = loop.create_future()
    hurrying: list[asyncio.Future[Any]] = []

    def handle() -> None:
        if first.done():
            hurrying.append(asyncio.ensure_future(stop()))
        else:
            first.set_result(None)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, handle)
    return first


# --- several processes: one of them ----------------------------------------------------------------


def server_process(
    settings: config.Settings, sharing: Sharing, control: socket.socket, source: socket.socket
) -> None:
    """The entry point of a server process. Ignores signals to the process group: the parent handles them."""
    ignore_signals()
    logs.set_up(
        settings.log_level.upper(),
        in_background=True,
        as_json=settings.log_format == "json",
        process=sharing.process + 1,
    )
    with exporting(settings.otlp_endpoint) as trace:
        listen.run(_serve_share(settings, sharing, trace, control, source))


async def _serve_share(
    settings: config.Settings,
    sharing: Sharing,
    trace: Trace | None,
    control: socket.socket,
    source: socket.socket,
) -> None:
    async def answer(message: messages.Message) -> messages.Answer:
        if isinstance(message, messages.Stop):
            server.stop()
            return None
        return await fleet.answer(message)

    channel = await Channel.over(control, answer)
    fleet = build_shared_fleet(settings, channel.call)
    server = _server(settings, fleet, trace, sharing)
    asking = asyncio.create_task(channel.serve())
    asking.add_done_callback(_end_without_parent)
    serving = asyncio.create_task(server.serve([]))
    await fleet.look()
    handover.receive(source, server.take)
    gc.collect()
    gc.freeze()
    await channel.call(messages.Started())
    await serving


def _end_without_parent(asking: "asyncio.Task[None]") -> None:
    if not asking.cancelled():  # as it is when this process ends by itself
        os._exit(1)
