"""Which runner computes which model, and the loader that starts it."""

import logging
from collections.abc import Sequence
from pathlib import Path

from rich.filesize import decimal

from segue.config import Settings
from segue.cpus import usable_cpus
from segue.engine.seam import Loader
from segue.errors import Incompatible, ModelUnavailable
from segue.models import adapter_files, gguf, names, sources, vocabularies
from segue.models.progress import Report
from segue.runners.cpu.architectures.support import drafts_obstacle
from segue.runners.cpu.loader import (
    CpuLoader,
    flavour_obstacle,
    kv_token_bytes,
    nonsense,
    weights_bytes,
)
from segue.runners.cpu.loader import obstacle as cpu_obstacle
from segue.runners.cpu.step.attention.kv_formats import KvType
from segue.runners.cpu.step.board import MAX_THREADS
from segue.runners.llama.obstacles.assumptions import assumptions_obstacle
from segue.runners.llama.obstacles.nvfp4_scales import nvfp4_scales_obstacle
from segue.runners.llama.obstacles.partial_rotary import partial_rotary_obstacle
from segue.runners.llama.obstacles.quantized_kv import kv_obstacle
from segue.runners.llama.obstacles.sliding_window import sliding_window_obstacle
from segue.runners.llama.obstacles.tensor_types import tensor_types_obstacle
from segue.runners.llama.runner import LlamaLoader
from segue.runners.vocab import llama_obstacle as llama_obstacle

log = logging.getLogger("segue")

# With --runner auto: the first of these that can run a model.
AUTO_ORDER = ("cpu", "llama")
_WORDS = {"cpu": "the CPU runner", "llama": "llama.cpp"}
_OF_STATES = ("ssm.", "shortconv.", "wkv.")  # settings of layers with states begin so


Files = tuple[tuple[str, str], ...]  # of LoRA adapters: names and paths


def choose_loader(
    settings: Settings,
    path: Path,
    name: str,
    report: Report,
    adapters: Files,
    drafts: bool,
) -> Loader:
    """The runner asked for, or the best one for this model on this machine, made ready for it.

    `drafts`: by its own MTP layer, if it has one.
    """
    files = [file for _, file in adapters]
    runner, why = choose_runner(settings, path, name, files)
    log.info("%s runs on %s%s", name, _WORDS[runner], why)
    if runner == "cpu":
        return _cpu(
            settings, path, name, adapters, report, drafts and _drafts_for_itself(path, name)
        )
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
        if obstacle := runner_obstacle(settings.runner, path, adapters, settings.kv_type):
            raise Incompatible(f"--runner {settings.runner} cannot run {name}: {obstacle}")
        return settings.runner, ", as asked for"
    reasons: list[str] = []
    for runner in AUTO_ORDER:
        obstacle = runner_obstacle(runner, path, adapters, settings.kv_type)
        if obstacle is None:
            return runner, "".join(reasons)
        reasons.append(f"; {_WORDS[runner]} cannot run it: {obstacle}")
    raise Incompatible(f"nothing here can run {name}{''.join(reasons)}")


def runner_obstacle(
    runner: str, path: Path, adapters: Sequence[str] = (), kv_type: KvType = "f16"
) -> str | None:
    """Why this runner cannot run this file here, or None if it can."""
    if runner == "cpu":
        return cpu_obstacle(path, adapters)
    adapted = [name for file in adapters for name in adapter_files.pairs(gguf.header(file))]
    header = gguf.header(path)
    return (
        nonsense(path)
        or llama_obstacle()
        or nvfp4_scales_obstacle(header, adapted)
        or partial_rotary_obstacle(header)
        or sliding_window_obstacle(header)
        or assumptions_obstacle(header)
        or tensor_types_obstacle(header)
        or kv_obstacle(header, kv_type)
    )


def runner_memory(runner: str, path: Path, settings: Settings) -> str:
    """Words about memory: of KV, and of weights where a runner needs clearly more than the file has."""
    if runner != "cpu":
        return ""
    header, kv_type = gguf.header(path), settings.kv_type
    other = names.draft_model(settings.draft)
    drafts = may_draft_for_itself(settings, other) and drafts_obstacle(header) is None
    each = kv_token_bytes(header, kv_type, drafts)
    words = f"; a token takes {decimal(each)} of KV in {kv_type}" if each else ""
    words += ", with that of the MTP layer" if each and drafts else ""
    taken, in_file = weights_bytes(header), sum(each.num_bytes for each in header.tensors)
    if taken < 1.1 * in_file:
        return words
    return f"{words}; weights take {decimal(taken)} of memory, {decimal(in_file)} in the file"


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


def may_draft_for_itself(settings: Settings, draft: str | None) -> bool:
    """Whether the settings let a model's own MTP layer draft for it. `draft`: the model that drafts for it instead."""
    return draft is None and settings.draft != names.NO_DRAFT


def _drafts_for_itself(path: Path, name: str) -> bool:
    """Whether a model that the CPU runner can run has an MTP layer that it can run too."""
    header = gguf.header(path)
    if not header.count("nextn_predict_layers"):
        return False
    if obstacle := drafts_obstacle(header):
        log.info("%s has no drafts by its own MTP layers: %s", name, obstacle)
        return False
    log.info("%s drafts by its own MTP layer, where that pays", name)
    return True


def _cpu(
    settings: Settings,
    path: Path,
    name: str,
    adapters: Files,
    report: Report,
    drafts: bool = False,
) -> CpuLoader:
    return CpuLoader(
        path=str(path),
        name=name,
        context_length=settings.context_length,
        kv_bytes=_kv_bytes(settings),
        kv_type=settings.kv_type,
        num_slots=settings.num_slots,
        threads=settings.threads or usable_cpus(),
        max_rows=max_rows(settings),
        flavour=settings.cpu_flavour or "",
        cache_dir=str(settings.cache_dir),
        adapters=adapters,
        drafts=drafts,
    ).prepared(report)


def _llama(settings: Settings, path: Path, name: str, adapters: Files) -> Loader:
    return LlamaLoader(
        path=str(path),
        name=name,
        context_length=settings.context_length,
        kv_bytes=_kv_bytes(settings),
        kv_precision=settings.kv_type,
        num_slots=settings.num_slots,
        threads=settings.threads or usable_cpus(),
        max_rows=max_rows(settings),
        adapters=adapters,
    )


def _kv_bytes(settings: Settings) -> int | None:
    return None if settings.kv_memory_mib is None else settings.kv_memory_mib << 20


def max_rows(settings: Settings) -> int:
    """Rows per step: a chunk of prompts, and one row for every sequence."""
    return settings.chunk_rows + settings.num_slots


def draft_obstacle(settings: Settings, path: Path, target: Path) -> str | None:
    """Why this model cannot draft for the target, or None if it can."""
    going_back = "carry states, which cannot go back to before a draft that proves wrong"
    adapters = [adapter_files.parse(text).path for text in settings.lora]
    if _has_states(target) and choose_runner(settings, target, target.stem, adapters)[0] != "cpu":
        return f"the model's ({target.stem}) layers {going_back} on {_WORDS['llama']}"
    if _has_states(path):  # it would go back further than what its slots keep apart
        return f"its layers {going_back}"
    return cpu_obstacle(path) or vocabularies.difference(target, path)


def _has_states(path: Path) -> bool:
    """Whether some layers carry a state from token to token, as their settings tell, whatever runs them."""
    header = gguf.header(path)
    own = tuple(f"{header.architecture}.{key}" for key in _OF_STATES)
    return any(key.startswith(own) for key in header.metadata)


def draft_loader(settings: Settings, model: str, target: Path, report: Report) -> CpuLoader:
    """The draft model, with the same slots and context as the model that it drafts for."""
    ref = names.parse(model)
    path = sources.fetch(ref, settings.cache_dir, report)
    if wrong := draft_obstacle(settings, path, target):
        raise Incompatible(f"--draft {ref.served_name} cannot be used: {wrong}")
    return _cpu(settings, path, ref.served_name, (), report)
