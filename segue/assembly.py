"""Puts the parts together: the runner of each model, the fleet of models, and the policy of the server.

Everything else meets these through the seams.
"""

import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from segue.config import Settings
from segue.cpus import usable_cpus
from segue.dialects import DIALECTS
from segue.dialects.fields.defaults import read_defaults
from segue.engine.process.adapter_list import AdapterList
from segue.engine.process.attached import Attached
from segue.engine.process.client import OnCrash
from segue.engine.process.fleet import Fleet, Member
from segue.engine.process.spawning import beside
from segue.engine.process.supervisor import Supervisor
from segue.engine.seam import Engine, Loader
from segue.errors import Incompatible, ModelUnavailable, SetupError
from segue.models import adapter_files, gguf, model_defaults, names, sources, vocabularies
from segue.models.adapter_files import AdapterRef
from segue.models.inventory import preview
from segue.models.model_defaults import Choice
from segue.models.progress import Report, silent
from segue.processes.doors import Doors
from segue.processes.messages import Answer, Message
from segue.processes.shared_fleet import SharedFleet
from segue.runners.cpu.loader import CpuLoader, flavour_obstacle, nonsense
from segue.runners.cpu.loader import obstacle as cpu_obstacle
from segue.runners.cpu.step.board import MAX_THREADS
from segue.runners.defaulted import DefaultedLoader
from segue.runners.drafted import DraftedLoader
from segue.runners.fake import FakeLoader
from segue.runners.llama.runner import DEFAULT_CONTEXT, LlamaLoader
from segue.runners.vocab import llama_obstacle as llama_obstacle
from segue.server.admission.cors import Origins
from segue.server.admission.hosts import Hosts, is_loopback
from segue.server.admission.keys import Keyring, parse_key
from segue.server.admission.limits import Limits
from segue.server.admission.policy import Policy
from segue.server.admission.request_caps import Caps
from segue.types import ModelInfo, ServedAdapter

log = logging.getLogger("segue")


# With --runner auto: the first of these that can run a model.
AUTO_ORDER = ("cpu", "llama")
_WORDS = {"cpu": "the CPU runner", "llama": "llama.cpp"}


Files = tuple[tuple[str, str], ...]  # of LoRA adapters: names and paths


def choose_loader(
    settings: Settings, path: Path, name: str, report: Report, adapters: Files = ()
) -> Loader:
    """The runner asked for, or the best one for this model on this machine, made ready for it."""
    files = [file for _, file in adapters]
    runner, why = choose_runner(settings, path, name, files)
    log.info("%s runs on %s%s", name, _WORDS[runner], why)
    if runner == "cpu":
        return _cpu(settings, path, name, adapters, report)
    return _llama(settings, path, name, adapters)


def choose_runner(
    settings: Settings, path: Path, name: str, adapters: Sequence[str] = ()
) -> tuple[str, str]:
    """Which runner would serve this file, and why not an earlier one. Raises Incompatible, or ModelUnavailable for a
    file whose settings make no sense: only what is not supported here goes on to the next runner.

    `adapters`: files of LoRA adapters. Those that do not go with the model are refused here, whatever the runner.
    """
    if wrong := nonsense(path):
        raise ModelUnavailable(f"{path} makes no sense: {wrong}; fetch or convert it again")
    for file in adapters:
        adapter_files.check(file, gguf.header(path))
    if settings.runner != "auto":
        if obstacle := runner_obstacle(settings.runner, path, adapters):
            raise Incompatible(f"--runner {settings.runner} cannot run {name}: {obstacle}")
        return settings.runner, ", as asked for"
    reasons: list[str] = []
    for runner in AUTO_ORDER:
        obstacle = runner_obstacle(runner, path, adapters)
        if obstacle is None:
            return runner, "".join(reasons)
        reasons.append(f"; {_WORDS[runner]} cannot run it: {obstacle}")
    raise Incompatible(f"nothing here can run {name}{''.join(reasons)}")


def runner_obstacle(runner: str, path: Path, adapters: Sequence[str] = ()) -> str | None:
    """Why this runner cannot run this file here, or None if it can."""
    if runner == "cpu":
        return cpu_obstacle(path, adapters)
    return nonsense(path) or llama_obstacle() or None


def wrong_flavour(settings: Settings) -> str | None:
    """Why the instruction set that is asked for cannot be used here, or None."""
    name = settings.cpu_flavour
    if not name or settings.engine == "vllm" or settings.runner not in ("auto", "cpu"):
        return None
    obstacle = flavour_obstacle(name)
    return obstacle and f"{settings.origin('cpu_flavour')} is {name!r}, but {obstacle}"


def threads_used(runner: str, wanted: int) -> int:
    """How many of the threads that are wanted a runner takes; 0: their number is not for it."""
    return {"cpu": min(wanted, MAX_THREADS), "llama": wanted}.get(runner, 0)


def _cpu(settings: Settings, path: Path, name: str, adapters: Files, report: Report) -> CpuLoader:
    return CpuLoader(
        path=str(path),
        name=name,
        context_length=settings.context_length,
        kv_bytes=_kv_bytes(settings),
        num_slots=settings.num_slots,
        threads=settings.threads or usable_cpus(),
        max_rows=_max_rows(settings),
        flavour=settings.cpu_flavour or "",
        cache_dir=str(settings.cache_dir),
        adapters=adapters,
    ).prepared(report)


def _llama(settings: Settings, path: Path, name: str, adapters: Files) -> Loader:
    return LlamaLoader(
        path=str(path),
        name=name,
        context_length=settings.context_length,
        kv_bytes=_kv_bytes(settings),
        num_slots=settings.num_slots,
        threads=settings.threads or usable_cpus(),
        max_rows=_max_rows(settings),
        adapters=adapters,
    )


def _kv_bytes(settings: Settings) -> int | None:
    return None if settings.kv_memory_mib is None else settings.kv_memory_mib << 20


def _max_rows(settings: Settings) -> int:
    """Rows per step: a chunk of prompts, and one row for every sequence."""
    return settings.chunk_rows + settings.num_slots


def build_policy(settings: Settings) -> Policy:
    """Access control and limits, from the settings."""
    keys = None
    if settings.api_keys or settings.api_key_file is not None:
        keys = Keyring(map(parse_key, settings.api_keys), settings.api_key_file)
    return Policy(
        keys=keys,
        hosts=Hosts(settings.host, settings.allowed_hosts),
        origins=Origins(settings.cors_origins),
        limits=Limits(
            max_queue=settings.max_queue,
            max_concurrent=settings.max_concurrent,
            requests_per_minute=settings.requests_per_minute,
            tokens_per_minute=settings.tokens_per_minute,
        ),
        caps=Caps(
            n=settings.max_n,
            best_of=settings.max_best_of,
            prompts=settings.max_prompts,
            choices=settings.max_choices,
            stops=settings.max_stops,
            logprobs=settings.max_logprobs,
            logit_bias=settings.max_logit_bias,
            grammar_chars=settings.max_grammar_chars,
            total_tokens=settings.max_total_tokens,
        ),
        max_body_bytes=settings.max_body_bytes,
        body_timeout_s=settings.body_timeout_s,
        request_timeout_s=settings.request_timeout_s,
        fim_only=settings.infill == "fim-only",
        client_keep_alive=keys is None
        if settings.client_keep_alive is None
        else settings.client_keep_alive,
        log_prompts=settings.log_prompts,
        defaults=read_defaults(
            settings.defaults,
            [operation.table for dialect in DIALECTS for operation in dialect.operations],
        ),
    )


def warn_if_open(settings: Settings) -> None:
    """Log loudly that the network can use this server without a key."""
    has_keys = settings.api_keys or settings.api_key_file is not None
    if not has_keys and not is_loopback(settings.host):
        log.warning("ANYBODY WHO REACHES %s CAN USE THIS SERVER: give it --api-key", settings.host)


def build_fleet(settings: Settings, report: Report, doors: Doors | None = None) -> Fleet:
    """Every model of the settings; none is started yet. `report`: called with the progress of downloads.

    `doors`: where other server processes connect to the workers.
    """
    if wrong := wrong_flavour(settings):
        raise Incompatible(wrong)
    members = build_members(settings, report, doors)
    return Fleet(members, settings.keep_alive_s or None, settings.strict_model)


def build_members(settings: Settings, report: Report, doors: Doors | None = None) -> list[Member]:
    is_ours = settings.engine != "vllm" and settings.runner != "fake"
    if (settings.lora or settings.draft) and not is_ours:
        raise SetupError("--lora and --draft are for models that our own runners compute")
    if settings.vllm_options and settings.engine != "vllm":
        raise SetupError("--vllm-option is for vLLM's engine: add --engine vllm")
    if settings.engine == "vllm":
        from segue.distributed import assembly as of_vllm

        members = of_vllm.build_members(settings, None if doors is None else doors.open)
    elif settings.runner == "fake":
        context_length = settings.context_length or FakeLoader.context_length
        fake = FakeLoader(
            num_slots=settings.num_slots,
            num_cells=max(FakeLoader.num_cells, 16 * context_length),
            max_rows=_max_rows(settings),
            context_length=context_length,
        )
        choice = model_defaults.choices(settings.generation_config, ["fake"])["fake"]
        loader = _with_defaults(fake, choice, None, "fake")
        door = None if doors is None else doors.open("fake")
        members = [Member("fake", (), _starter(settings, lambda: loader, door))]
    else:
        refs = names.parse_all(settings.models, settings.aliases)
        taken = [name for ref in refs for name in ref.names]
        adapters = adapter_files.parse_all(settings.lora, taken)
        chosen = model_defaults.choices(
            settings.generation_config, [ref.served_name for ref in refs]
        )
        members = [
            Member(
                ref.served_name,
                ref.aliases,
                _starter(
                    settings,
                    _fetcher(
                        settings,
                        ref,
                        () if i else adapters,
                        report,
                        choice=chosen[ref.served_name],
                        draft=None if i else settings.draft,
                    ),
                    None if doors is None else doors.open(ref.served_name),
                ),
                AdapterList() if i else _served(adapters),
                look=partial(_look, settings, ref),
            )
            for i, ref in enumerate(refs)
        ]
    return members


def build_shared_fleet(
    settings: Settings, call: Callable[[Message], Awaitable[Answer]]
) -> SharedFleet:
    """The models of one of several server processes. `call`: of the parent, which starts them."""

    async def attach(address: str, on_crash: OnCrash) -> Engine:
        engine = Attached(address, on_crash)
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
        longest=DEFAULT_CONTEXT,
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
    """Adapters and the draft model belong to the first model. `choice`: of --generation-config."""
    files = tuple((each.name, each.path) for each in adapters)

    def fetch() -> Loader:
        path = sources.fetch(ref, settings.cache_dir, report)
        loader = choose_loader(settings, path, ref.served_name, report, files)
        loader = _with_defaults(loader, choice, path, ref.served_name)
        if draft is None:
            return loader
        return DraftedLoader(loader, _draft(settings, draft, path, report))

    return fetch


def _with_defaults(loader: Loader, choice: Choice, path: Path | None, name: str) -> Loader:
    """The model with its own sampling defaults, if it has any."""
    defaults = model_defaults.of_choice(choice, path)
    if defaults is None:
        return loader
    model_defaults.announce(name, defaults)
    return DefaultedLoader(loader, defaults)


def draft_obstacle(path: Path, target: Path) -> str | None:
    """Why this model cannot draft for the target, or None if it can."""
    return cpu_obstacle(path) or vocabularies.difference(target, path)


def _draft(settings: Settings, model: str, target: Path, report: Report) -> CpuLoader:
    """The draft model, with the same slots and context as the model that it drafts for."""
    ref = names.parse(model)
    path = sources.fetch(ref, settings.cache_dir, report)
    if wrong := draft_obstacle(path, target):
        raise Incompatible(f"--draft {ref.served_name} cannot be used: {wrong}")
    return _cpu(settings, path, ref.served_name, (), report)


def _starter(
    settings: Settings, make_loader: Callable[[], Loader], door: socket.socket | None = None
) -> Callable[[], Awaitable[Engine]]:
    async def start() -> Engine:
        loader = await beside(make_loader)
        supervisor = Supervisor(loader, settings.chunk_rows, settings.step_timeout_s, door)
        await supervisor.start()
        return supervisor

    return start


def further_node(settings: Settings) -> Callable[[], None] | None:
    """If this is a node of vLLM other than the first: what it does instead of serving, until the first node ends."""
    if settings.engine != "vllm":
        return None
    from segue.distributed import assembly as of_vllm

    return of_vllm.further_node(settings)
