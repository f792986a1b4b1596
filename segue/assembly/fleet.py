"""The models of the settings: each a member of the fleet, started when it is needed."""

import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from segue.assembly.runners import (
    choose_loader,
    draft_loader,
    max_rows,
    may_draft_for_itself,
    wrong_flavour,
)
from segue.config import Settings
from segue.engine.process.adapter_list import AdapterList
from segue.engine.process.attached_engine import AttachedEngine
from segue.engine.process.client import OnCrash
from segue.engine.process.fleet import Fleet, Member
from segue.engine.process.new_worker import NewWorker
from segue.engine.process.spawning import beside
from segue.engine.process.supervisor import Supervisor
from segue.engine.seam import Engine, Loader
from segue.engine.slots.folder import SlotFolder
from segue.errors import Incompatible, SetupError
from segue.models import adapter_files, model_defaults, names, sources
from segue.models.adapter_files import AdapterRef
from segue.models.inventory import preview
from segue.models.model_defaults import Choice
from segue.models.progress import Report, silent
from segue.processes.messages import Answer, Message
from segue.processes.shared_fleet import SharedFleet
from segue.processes.worker_sockets import WorkerSockets
from segue.runners.fake import FakeLoader
from segue.runners.with_defaults import LoaderWithDefaults
from segue.runners.with_draft import LoaderWithDraft
from segue.types import ModelInfo, ServedAdapter

log = logging.getLogger("segue")


def build_fleet(
    settings: Settings,
    report: Report,
    *,
    ahead: NewWorker | None,
    sockets: WorkerSockets | None = None,
) -> Fleet:
    """Every model of the settings; none is loaded yet. `report`: called with the progress of downloads.

    `ahead`: the first model's worker, if its process was started already. `sockets`: where other server processes
    connect to the workers.
    """
    if wrong := wrong_flavour(settings):
        raise Incompatible(wrong)
    members = build_members(settings, report, sockets, ahead)
    return Fleet(members, settings.keep_alive_s or None, settings.strict_model)


# What Segue's own engine is told: vLLM has options of its own for these.
_OF_OUR_ENGINE = (
    "context_shift",
    "runner",
    "threads",
    "cpu_flavour",
    "kv_type",
    "num_slots",
    "slot_save_path",
    "slot_save_mib",
    "chunk_rows",
)


def idle_settings(settings: Settings) -> list[str]:
    """Settings that were given and have no effect with vLLM's engine, as they were given."""
    if settings.engine != "vllm":
        return []
    return [settings.origin(name) for name in _OF_OUR_ENGINE if name in settings.origins]


def warn_of_idle(settings: Settings) -> None:
    if idle := idle_settings(settings):
        log.warning("no effect with --engine vllm: %s; it has --vllm-option", ", ".join(idle))


def companion_obstacle(settings: Settings) -> str | None:
    """Why adapters and a draft model cannot be used with this engine, or None."""
    if settings.engine == "vllm":
        return "--lora and --draft are for Segue's own engine; vLLM's adapters are --vllm-option lora_modules=..."
    if settings.runner == "fake":
        return "--lora and --draft are for models, and --runner fake has none"
    return None


def build_members(
    settings: Settings,
    report: Report,
    sockets: WorkerSockets | None = None,
    ahead: NewWorker | None = None,
) -> list[Member]:
    if (settings.lora or names.draft_model(settings.draft)) and (
        wrong := companion_obstacle(settings)
    ):
        raise SetupError(wrong)
    folder = settings.slot_save_path
    if folder is not None and not folder.is_dir():
        raise SetupError(f"{settings.origin('slot_save_path')}: there is no folder {folder}")
    if folder is None and settings.slot_save_mib is not None:
        raise SetupError(
            f"{settings.origin('slot_save_mib')} limits what --slot-save-path has: add that"
        )
    if settings.vllm_options and settings.engine != "vllm":
        raise SetupError("--vllm-option is for vLLM's engine: add --engine vllm")
    if settings.engine == "vllm":
        from segue.distributed import assembly as of_vllm

        return of_vllm.build_members(settings, None if sockets is None else sockets.listen)
    if settings.runner == "fake":
        return [_fake(settings, sockets, ahead)]
    return _of_files(settings, report, sockets, ahead)


def _fake(settings: Settings, sockets: WorkerSockets | None, ahead: NewWorker | None) -> Member:
    context_length = settings.context_length or FakeLoader.context_length
    fake = FakeLoader(
        num_slots=settings.num_slots,
        num_cells=max(FakeLoader.num_cells, 16 * context_length),
        max_rows=max_rows(settings),
        context_length=context_length,
    )
    choice = model_defaults.choices(settings.generation_config, ["fake"])["fake"]
    loader = _with_defaults(fake, choice, None, "fake")
    start = _starter(settings, lambda: loader, _listener(sockets, "fake"), ahead)
    return Member("fake", (), start)


def _of_files(
    settings: Settings, report: Report, sockets: WorkerSockets | None, ahead: NewWorker | None
) -> list[Member]:
    """Adapters, the draft model and the worker that was started already belong to the first one."""
    refs = names.parse_all(settings.models, settings.aliases)
    taken = [name for ref in refs for name in ref.names]
    adapters = adapter_files.parse_all(settings.lora, taken)
    chosen = model_defaults.choices(settings.generation_config, [ref.served_name for ref in refs])

    def member(ref: names.ModelRef, adapters: Sequence[AdapterRef], draft: str | None) -> Member:
        fetch = _fetcher(
            settings, ref, adapters, report, choice=chosen[ref.served_name], draft=draft
        )
        return Member(
            ref.served_name,
            ref.aliases,
            _starter(
                settings,
                fetch,
                _listener(sockets, ref.served_name),
                ahead if ref is refs[0] else None,
            ),
            _served(adapters),
            look=partial(_look, settings, ref),
        )

    first, *others = refs
    return [
        member(first, adapters, names.draft_model(settings.draft)),
        *(member(ref, (), None) for ref in others),
    ]


def _listener(sockets: WorkerSockets | None, name: str) -> socket.socket | None:
    return None if sockets is None else sockets.listen(name)


def build_shared_fleet(
    settings: Settings, call: Callable[[Message], Awaitable[Answer]]
) -> SharedFleet:
    """The models of one of several server processes. `call`: of the parent, which starts them."""

    async def attach(address: str, on_crash: OnCrash) -> Engine:
        engine = AttachedEngine(address, on_crash)
        await engine.start()
        return engine

    return SharedFleet(
        build_members(settings, silent),
        settings.keep_alive_s or None,
        settings.strict_model,
        attach=attach,
        call=call,
    )


def _served(adapters: Sequence[AdapterRef]) -> AdapterList:
    """One without a name of its own is applied to every request that does not say otherwise, as llama.cpp does."""
    served = [
        ServedAdapter(ref.name, ref.file, ref.scale, 0.0 if ref.is_named else ref.scale)
        for ref in adapters
    ]
    return AdapterList(served, has_choice=any(ref.is_named for ref in adapters))


def _look(settings: Settings, ref: names.ModelRef) -> ModelInfo | None:
    """What can be told of a model that is not loaded: nothing if its file is not here."""
    path = sources.present(ref, settings.cache_dir)
    if path is None:
        return None
    return preview(
        path,
        ref.served_name,
        context_length=settings.context_length,
        cache_dir=settings.cache_dir,
    )


def _fetcher(
    settings: Settings,
    ref: names.ModelRef,
    adapters: Sequence[AdapterRef],
    report: Report,
    *,
    choice: Choice,
    draft: str | None,
) -> Callable[[], Loader]:
    """`choice`: of --generation-config. `draft`: the model that drafts for it."""
    files = tuple((each.name, each.path) for each in adapters)

    def fetch() -> Loader:
        path = sources.fetch(ref, settings.cache_dir, report)
        drafts = may_draft_for_itself(settings, draft)
        loader = choose_loader(settings, path, ref.served_name, report, files, drafts)
        loader = _with_defaults(loader, choice, path, ref.served_name)
        if draft is None:
            return loader
        return LoaderWithDraft(loader, draft_loader(settings, draft, path, report))

    return fetch


def _with_defaults(loader: Loader, choice: Choice, path: Path | None, name: str) -> Loader:
    """The model with its own sampling defaults, if it has any."""
    defaults = model_defaults.of_choice(choice, path)
    if defaults is None:
        return loader
    model_defaults.announce(name, defaults)
    return LoaderWithDefaults(loader, defaults)


def _starter(
    settings: Settings,
    make_loader: Callable[[], Loader],
    listener: socket.socket | None = None,
    ahead: NewWorker | None = None,
) -> Callable[[], Awaitable[Engine]]:
    folder, mib = settings.slot_save_path, settings.slot_save_mib
    most_bytes = None if mib is None else mib << 20

    async def start() -> Engine:
        nonlocal ahead
        loader = await beside(make_loader)
        supervisor = Supervisor(
            loader,
            settings.chunk_rows,
            settings.step_timeout_s,
            listener,
            ahead,
            has_priorities=settings.scheduling_policy == "priority",
            slot_folder=None if folder is None else SlotFolder(str(folder.resolve()), most_bytes),
        )
        ahead = None  # it is one worker: the next start makes another
        await supervisor.start()
        return supervisor

    return start


def further_node(settings: Settings) -> Callable[[], None] | None:
    """If this is a node of vLLM other than the first: what it does instead of serving, until the first node ends."""
    if settings.engine != "vllm":
        return None
    from segue.distributed import assembly as of_vllm

    return of_vllm.further_node(settings)
