"""What serves on vLLM, put together: its members of the fleet, or a node that computes for another's server."""

import os.path
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from segue.config import Settings
from segue.distributed.launch import Launch
from segue.distributed.lora_modules import split_modules
from segue.distributed.node import compute, is_further_node
from segue.distributed.vllm import VllmEngine
from segue.engine.process.adapter_list import AdapterList
from segue.engine.process.fleet import Member
from segue.engine.process.shared_engine import SharedEngine
from segue.engine.process.spawning import beside
from segue.engine.seam import Engine
from segue.errors import ModelUnavailable, SetupError
from segue.models import model_defaults, names
from segue.types import ServedAdapter

OpenDoor = Callable[[str], socket.socket]


def build_members(settings: Settings, open_door: OpenDoor | None = None) -> list[Member]:
    """Every model of the settings; none is started yet. `open_door`: where server processes reach one of that name."""
    return [
        Member(
            ref.served_name,
            ref.aliases,
            _starter(settings, ref, None if open_door is None else open_door(ref.served_name)),
            _adapters(settings),
        )
        for ref in _refs(settings)
    ]


def further_node(settings: Settings) -> Callable[[], None] | None:
    """What a node other than the first does, until the first ends; None: this one has a server."""
    if not is_further_node(settings.vllm_options):
        return None
    launch = _launch(settings, _refs(settings)[0])
    return lambda: compute(launch)


def _refs(settings: Settings) -> tuple[names.ModelRef, ...]:
    return names.parse_all(settings.models, settings.aliases, os.path.exists)


def _launch(settings: Settings, ref: names.ModelRef) -> Launch:
    options, adapters = split_modules(settings.vllm_options)
    kv_mib = settings.kv_memory_mib
    return Launch(
        model=_model(ref),
        name=ref.served_name,
        context_length=settings.context_length,
        kv_bytes=None if kv_mib is None else kv_mib << 20,
        max_logprobs=settings.max_logprobs,
        scheduling_policy=settings.scheduling_policy,
        drain_s=settings.drain_timeout_s,
        options=options,
        adapters=adapters,
        generation_config=_generation_config(settings, ref.served_name),
    )


def _generation_config(settings: Settings, name: str) -> str:
    """In vLLM's words: auto, vllm for none, or a folder."""
    served = [ref.served_name for ref in _refs(settings)]
    choice = model_defaults.choices(settings.generation_config, served)[name]
    if not isinstance(choice, Path):
        return "vllm" if choice == "off" else choice
    if choice.name != model_defaults.FILE_NAME:
        raise SetupError(
            f"--generation-config {choice}: vLLM looks for {model_defaults.FILE_NAME} in a folder; rename the file"
        )
    return str(choice.parent)


def _starter(
    settings: Settings, ref: names.ModelRef, listener: socket.socket | None
) -> Callable[[], Awaitable[Engine]]:
    launch = _launch(settings, ref)

    async def start() -> Engine:
        engine = VllmEngine(lambda: beside(launch), settings.step_timeout_s)
        await engine.start()
        if listener is None:
            return engine
        hosted = SharedEngine(engine, listener)
        await hosted.start()
        return hosted

    return start


def _adapters(settings: Settings) -> AdapterList:
    _, modules = split_modules(settings.vllm_options)
    served = [ServedAdapter(name, Path(folder).name) for name, folder in modules]
    return AdapterList(served, has_choice=bool(served))


def _model(ref: names.ModelRef) -> str:
    """A model for vLLM: a folder of safetensors, or a name on Hugging Face, which vLLM downloads itself."""
    path = Path(ref.path).expanduser()
    if ref.source == "path" and (path / "config.json").is_file():
        return str(path)
    if ref.source == "hub" and not (ref.file or ref.quant):
        return ref.repo
    raise ModelUnavailable(
        f"--engine vllm cannot serve {ref.served_name}: name a folder in the layout of Hugging Face, "
        "with config.json and safetensors, or OWNER/REPO"
    )
