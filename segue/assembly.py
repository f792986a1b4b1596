"""Where concretes are built: which runner computes a model, and the fleet that serves them all.

Everything else meets these through the seams.
"""

import asyncio
import importlib.util
import logging
import platform
from collections.abc import Awaitable, Callable
from pathlib import Path

from segue.config import Settings
from segue.cpus import usable_cpus
from segue.engine.fleet import Fleet, Member
from segue.engine.seam import Engine, Loader
from segue.engine.supervisor import Supervisor
from segue.errors import Incompatible
from segue.models import gguf, names, sources
from segue.models.progress import Report
from segue.runners.fake import FakeLoader
from segue.runners.llama import LlamaLoader

log = logging.getLogger("segue")


def choose_loader(settings: Settings, path: Path, name: str, report: Report) -> Loader:
    """The runner asked for, or the best one for this model on this machine, made ready for it."""
    if settings.runner == "llama":
        log.info("%s runs on llama.cpp, as asked for", name)
        return _llama(settings, path, name)
    obstacle = _openvino_obstacle(path)
    if obstacle is None:
        log.info("%s runs on OpenVINO", name)
        return _openvino(settings, path, name, report)
    if settings.runner == "openvino":
        raise Incompatible(f"--runner openvino cannot run {name}: {obstacle}")
    log.info("%s runs on llama.cpp; OpenVINO cannot run it: %s", name, obstacle)
    return _llama(settings, path, name)


def _openvino_obstacle(path: Path) -> str | None:
    """Why OpenVINO cannot run this model here, or None if it can."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return f"the machine is {platform.machine()}, not x86-64"
    if importlib.util.find_spec("openvino") is None:
        return "the extra `openvino` is not installed"
    from segue.runners.openvino import supports

    return supports(gguf.header(path))


def _openvino(settings: Settings, path: Path, name: str, report: Report) -> Loader:
    from segue.runners.openvino import OpenVinoLoader

    loader = OpenVinoLoader(
        path=str(path),
        name=name,
        context_length=settings.context_length,
        kv_bytes=_kv_bytes(settings),
        num_slots=settings.num_slots,
        threads=settings.threads or usable_cpus(),
        max_rows=_max_rows(settings),
        fast_kv=settings.fast_kv,
        cache_dir=str(settings.cache_dir),
    )
    loader.prepare(report)
    return loader


def _llama(settings: Settings, path: Path, name: str) -> Loader:
    return LlamaLoader(
        path=str(path),
        name=name,
        context_length=settings.context_length,
        kv_bytes=_kv_bytes(settings),
        num_slots=settings.num_slots,
        threads=settings.threads or usable_cpus(),
        max_rows=_max_rows(settings),
    )


def _kv_bytes(settings: Settings) -> int | None:
    return None if settings.kv_memory_mib is None else settings.kv_memory_mib << 20


def _max_rows(settings: Settings) -> int:
    """A chunk of prompts beside one row for every sequence."""
    return settings.chunk_rows + settings.num_slots


def build_fleet(settings: Settings, report: Report) -> Fleet:
    """Every model the settings name, none of them started. `report` hears of downloads."""
    if settings.runner == "fake":
        loader = FakeLoader(num_slots=settings.num_slots, max_rows=_max_rows(settings))
        members = [Member("fake", (), _starter(settings, lambda: loader))]
    else:
        refs = names.parse_all(settings.models, settings.aliases)
        members = [
            Member(
                ref.served_name,
                ref.aliases,
                _starter(settings, _fetcher(settings, ref, report)),
            )
            for ref in refs
        ]
    return Fleet(members, settings.keep_alive_s or None, settings.strict_model)


def _fetcher(settings: Settings, ref: names.ModelRef, report: Report) -> Callable[[], Loader]:
    def fetch() -> Loader:
        path = sources.fetch(ref, settings.cache_dir, report)
        return choose_loader(settings, path, ref.served_name, report)

    return fetch


def _starter(
    settings: Settings, make_loader: Callable[[], Loader]
) -> Callable[[], Awaitable[Engine]]:
    async def start() -> Engine:
        supervisor = Supervisor(await asyncio.to_thread(make_loader), settings.chunk_rows)
        await supervisor.start()
        return supervisor

    return start
