"""What the settings make of vLLM: members of the fleet, or a further node. Nothing of vLLM is started here."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from segue import config
from segue.assembly.fleet import build_fleet, further_node
from segue.config import Settings
from segue.distributed import assembly as of_vllm
from segue.errors import ModelUnavailable, SetupError
from segue.models.progress import silent
from segue.processes.worker_sockets import WorkerSockets


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def settings(model: object, **more: Any) -> Settings:
    return config.load({"models": (str(model),), "engine": "vllm", **more})


def test_a_folder_is_a_member_with_its_adapters(folder: Path) -> None:
    options = ('lora_modules={"poet": "./a/poems"}', "dtype=float32")
    fleet = build_fleet(settings(folder, vllm_options=options), silent, ahead=None)
    assert fleet.names == [folder.name, "poet"]
    [adapter] = fleet.adapters(folder.name)
    assert (adapter.name, adapter.file) == ("poet", "poems")


def test_a_model_in_another_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="layout of Hugging Face"):
        build_fleet(settings(tmp_path), silent, ahead=None)


def test_a_further_node_has_no_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[Any] = []
    monkeypatch.setattr(of_vllm, "compute", computed.append)
    options = ("tensor_parallel_size=2", "nnodes=2", "node_rank=1")
    node = further_node(settings(folder, vllm_options=options, kv_memory_mib=64))
    assert node is not None
    node()
    [launch] = computed
    assert (launch.model, launch.options, launch.kv_bytes) == (str(folder), options, 64 << 20)
    first = settings(folder, vllm_options=("nnodes=2", "node_rank=0"))
    assert further_node(first) is None


def test_sampling_defaults_are_said_in_vllms_words(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[Any] = []
    monkeypatch.setattr(of_vllm, "compute", computed.append)
    (folder / "generation_config.json").write_text("{}")
    other = folder / "other.json"
    other.write_text("{}")
    said = ("auto", "off", "vllm", str(folder), str(folder / "generation_config.json"))
    for word in said:
        node = settings(folder, vllm_options=("node_rank=1",), generation_config=(word,))
        run = further_node(node)
        assert run is not None
        run()
    found = [launch.generation_config for launch in computed]
    assert found == ["auto", "vllm", "vllm", str(folder), str(folder)]
    with pytest.raises(SetupError, match="rename the file"):
        build_fleet(settings(folder, generation_config=(str(other),)), silent, ahead=None)


@pytest.mark.skipif(not hasattr(socket, "send_fds"), reason="connections cannot be passed on here")
def test_several_server_processes_have_a_door_to_each_model(folder: Path) -> None:
    with WorkerSockets() as sockets:
        fleet = build_fleet(
            settings(folder, server_processes=2), silent, ahead=None, sockets=sockets
        )
        assert list(sockets.addresses) == fleet.names


@pytest.mark.parametrize(("given", "limit_s"), [({}, None), ({"step_timeout_s": 5.0}, 5.0)])
def test_how_long_a_step_may_take_is_vllms_matter_unless_it_was_said(
    given: dict[str, Any], limit_s: float | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float | None] = []

    class Engine:
        def __init__(self, launch: Any, step_timeout_s: float | None) -> None:
            limits.append(step_timeout_s)

        async def start(self) -> None: ...

    monkeypatch.setattr(of_vllm, "VllmEngine", Engine)
    [member] = of_vllm.build_members(settings(folder, **given))
    asyncio.run(member.start())  # type: ignore[arg-type]
    assert limits == [limit_s]
