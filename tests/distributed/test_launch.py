"""What is made of vLLM's configuration, statistics and errors. vLLM itself is not needed."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from segue.distributed import launch
from segue.distributed.launch import Gauges
from segue.distributed.request.follow import Refused
from segue.errors import EngineDied, EngineFault, Incompatible, InvalidField, Unavailable


def told(running: int, waiting: int, usage: float) -> Any:
    return SimpleNamespace(num_running_reqs=running, num_waiting_reqs=waiting, kv_cache_usage=usage)


def test_gauges_are_of_all_engines() -> None:
    """With data_parallel_size there are several, and each tells of itself."""
    gauges = Gauges()
    assert (gauges.num_engines, gauges.running, gauges.kv_usage) == (1, 0, 0.0)
    for engine in (0, 1):
        gauges.expect(engine)
    gauges.record(0, told(3, 1, 0.5), SimpleNamespace(num_preempted_reqs=2))
    assert (gauges.num_engines, gauges.running, gauges.kv_usage) == (2, 3, 0.25)
    gauges.record(1, told(4, 0, 0.25), None)
    assert (gauges.running, gauges.waiting, gauges.kv_usage) == (7, 1, 0.375)
    gauges.record(0, told(0, 0, 0.0), SimpleNamespace(num_preempted_reqs=1))
    assert (gauges.running, gauges.waiting, gauges.kv_usage) == (4, 0, 0.125)
    gauges.record(1, None, None)
    assert (gauges.running, gauges.steps, gauges.preemptions) == (4, 3, 3)


@pytest.mark.parametrize(
    ("speculates", "is_second", "expected"),
    [
        (False, False, ["CutRows", "DrawRows"]),
        (False, True, ["CutSlots", "DrawSlots"]),
        (True, True, ["CutSlots"]),
        (True, False, []),  # it would refuse to start
    ],
)
def test_processors_of_vllms_two_model_runners(
    speculates: bool, is_second: bool, expected: list[str]
) -> None:
    config = SimpleNamespace(
        speculative_config=object() if speculates else None, use_v2_model_runner=is_second
    )
    names = [name.rpartition(":")[2] for name in launch._processors(config)]
    assert names == expected


class Client(Exception):
    pass


class Graceful(Exception):
    pass


class Retryable(Exception):
    pass


class Dead(Exception):
    pass


@pytest.fixture
def exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of vLLM, by its names."""
    named: dict[str, dict[str, Any]] = {
        "vllm.exceptions": {
            "VLLMClientError": Client,
            "GracefulHTTPError": Graceful,
            "RetryableRequestError": Retryable,
        },
        "vllm.v1.engine.exceptions": {"EngineDeadError": Dead},
    }
    for name, found in named.items():
        module = ModuleType(name)
        vars(module).update(found)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("exceptions")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Graceful("The engine is busy."), Unavailable),
        (Retryable("The engine is busy."), Unavailable),
        (Client(), InvalidField),
        (Refused(), InvalidField),
        (ValueError(), EngineFault),  # of what came back
        (Dead(), EngineDied),
        (RuntimeError(), EngineFault),
    ],
    ids=repr,
)
def test_errors_of_vllm(error: Exception, expected: type[Exception]) -> None:
    known = launch._error(error)
    assert type(known) is expected
    if isinstance(known, Unavailable):
        assert (known.message, known.retry_after_s) == ("The engine is busy.", 1.0)


class Started:
    """vLLM's client, of a model whose tokenizer is not known here."""

    def __init__(self) -> None:
        resources = SimpleNamespace(engine_manager=None)
        self.engine_core = SimpleNamespace(resources=resources)
        self.is_shut_down = False

    def get_tokenizer(self) -> object:
        return object()

    def shutdown(self) -> None:
        self.is_shut_down = True


def test_an_engine_that_cannot_be_used_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory would be held for ever, and once more with every further attempt."""
    llm = Started()
    envs = SimpleNamespace(disable_envs_cache=lambda: None, enable_envs_cache=lambda: None)
    client = SimpleNamespace(from_vllm_config=lambda *args, **more: llm)
    named = {"vllm": {"envs": envs}, "vllm.v1.engine.async_llm": {"AsyncLLM": client}}
    for name, found in named.items():
        module = ModuleType(name)
        vars(module).update(found)
        monkeypatch.setitem(sys.modules, name, module)
    generation = SimpleNamespace(try_get_generation_config=dict)
    config = SimpleNamespace(model_config=generation)
    monkeypatch.setattr(launch, "engine_config", lambda _: config)
    for name in ("_usage", "_stat_logger"):
        monkeypatch.setattr(launch, name, lambda *_: None)
    with pytest.raises(Incompatible, match="tokenizer"):
        launch._launch(launch.Launch(model="folder", name="tiny"))
    assert llm.is_shut_down
