"""vLLM's engine is configured as `vllm serve` configures it: what differs is listed here, and is meant."""

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from segue.distributed import launch as launching
from segue.distributed.launch import Launch, engine_config
from segue.distributed.request.room import Room
from tests.support.models.tiny_hf import write_tiny_hf
from tests.support.vllm.serve import of_serve
from tests.support.vllm.server import NEEDS_VLLM
from tests.support.vllm.unstarted import do_not_start

pytestmark = [*NEEDS_VLLM, pytest.mark.filterwarnings("ignore")]  # vLLM is imported in this process

MEANT = {
    "model_config.logits_processors",  # filters and draws that vLLM lacks
    "model_config.max_logprobs",  # beam search needs more
    "structured_outputs_config.backend",  # the one that knows our grammars
    "shutdown_timeout",  # the drain's
}
OF_EACH = {"instance_id"}  # drawn for each configuration


def leaves(config: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every field of a configuration with its value, written out."""
    if not dataclasses.is_dataclass(config):
        yield path, repr(config)
        return
    for name, value in vars(config).items():
        yield from leaves(value, f"{path}.{name}" if path else name)


def serve_config(model: str, *flags: str) -> Any:
    """The configuration of `vllm serve MODEL FLAGS`."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = of_serve("make_arg_parser")(FlexibleArgumentParser())
    arguments = parser.parse_args(["--model", model, *flags])
    made = AsyncEngineArgs.from_cli_args(arguments)
    return made.create_engine_config(UsageContext.OPENAI_API_SERVER)


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ((), ()),
        (("max_num_seqs=32", "dtype=float32"), ("--max-num-seqs", "32", "--dtype", "float32")),
    ],
)
def test_the_engine_is_configured_as_by_vllm_serve(
    tiny_gguf: Path, tmp_path: Path, options: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    folder = str(write_tiny_hf(tmp_path / "tiny", tiny_gguf))
    launch = Launch(model=folder, name="tiny", options=options, drain_s=5.0)
    launch.prepare()
    ours, theirs = dict(leaves(engine_config(launch))), dict(leaves(serve_config(folder, *flags)))
    differing = {path for path in ours | theirs if ours.get(path) != theirs.get(path)}
    assert differing - OF_EACH == MEANT


def test_processors_are_those_that_the_model_runner_takes(tiny_gguf: Path, tmp_path: Path) -> None:
    """Ours come after the user's. With speculation the first model runner would refuse to start with any."""
    folder = str(write_tiny_hf(tmp_path / "tiny", tiny_gguf))
    speculation = {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 3}
    configs = [
        engine_config(Launch(model=folder, name="tiny", options=(option,)))
        for option in (
            'logits_processors=["mine:Mine"]',
            f"speculative_config={json.dumps(speculation)}",
        )
    ]
    found = [
        [name.rpartition(":")[2] for name in config.model_config.logits_processors]
        for config in configs
    ]
    if configs[0].use_v2_model_runner:
        assert found == [["Mine", "CutSlots", "DrawSlots"], ["CutSlots"]]
    else:
        assert found == [["Mine", "CutRows", "DrawRows"], []]


def test_its_processes_are_started_as_by_vllm_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for set_up in (Launch(model="", name="").prepare, of_serve("cli_env_setup")):
        monkeypatch.delenv("VLLM_WORKER_MULTIPROC_METHOD", raising=False)
        set_up()
        found.append(os.environ["VLLM_WORKER_MULTIPROC_METHOD"])
    assert found == ["spawn", "spawn"]


def test_variables_are_not_read_for_every_token(
    tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm import envs

    folder = str(write_tiny_hf(tmp_path / "tiny", tiny_gguf))
    do_not_start(monkeypatch, folder)
    name = "VLLM_COMPUTE_NANS_IN_LOGITS"
    try:
        Launch(model=folder, name="tiny")()
        monkeypatch.setenv(name, "1")
        assert not getattr(envs, name), "as it was when the engine started"
        Launch(model=folder, name="tiny")()
        assert getattr(envs, name), "as it is when another one starts"
    finally:
        envs.disable_envs_cache()


def test_pages_are_told_what_the_folder_knows(
    tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm import envs
    from vllm.platforms import current_platform

    folder = write_tiny_hf(tmp_path / "tiny", tiny_gguf)
    do_not_start(monkeypatch, str(folder))
    try:
        info = Launch(model=str(folder), name="tiny")().info
    finally:
        envs.disable_envs_cache()
    config = json.loads((folder / "config.json").read_text("utf-8"))
    assert info.origin.format == "safetensors"
    assert info.origin.num_bytes == info.size_bytes > 0
    assert info.origin.metadata[f"{info.architecture}.embedding_length"] == config["hidden_size"]
    assert info.on_gpu == (not current_platform.is_cpu())


def test_the_room_of_the_second_model_runner_is_vllms() -> None:
    second, first = (SimpleNamespace(use_v2_model_runner=is_it) for is_it in (True, False))
    assert launching._room(second) == Room(biases=1024, allowed=1024, stops=128, bad_words=1024)
    assert launching._room(first) is None
