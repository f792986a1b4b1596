"""vLLM's coordinator of several engines: it ends with the server, and the engine with it. vLLM is not needed."""

import multiprocessing
import pickle
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from segue.distributed import coordinator
from tests.support.waiting import wait_until


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was done, in a process where vLLM has a coordinator."""
    done: list[Any] = []

    class DPCoordinatorProc:
        run_coordinator = staticmethod(lambda **arguments: done.append(arguments))

    module: Any = ModuleType("vllm.v1.engine.coordinator")
    module.DPCoordinatorProc = DPCoordinatorProc
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(coordinator, "watch", lambda: done.append("watched"))
    monkeypatch.setattr(coordinator, "_run", None)
    return done


def test_its_process_is_watched_and_runs_what_vllm_wrote(ran: list[Any]) -> None:
    for _ in range(2):  # a server starts vLLM again if it died
        coordinator.tie_coordinator()
    target = sys.modules["vllm.v1.engine.coordinator"].DPCoordinatorProc.run_coordinator
    assert pickle.loads(pickle.dumps(target)) is coordinator.coordinate
    target(engine_count=2)  # in a process that was forked
    assert ran == ["watched", {"engine_count": 2}]


def test_a_new_interpreter_runs_vllms_own(ran: list[Any]) -> None:
    coordinator.coordinate(engine_count=3)
    assert ran == ["watched", {"engine_count": 3}]


def client(proc: Any) -> Any:
    about = None if proc is None else SimpleNamespace(proc=proc)
    resources = SimpleNamespace(coordinator=about, engine_dead=False)
    return SimpleNamespace(engine_core=SimpleNamespace(resources=resources))


def test_an_engine_without_its_coordinator_is_dead() -> None:
    sentinel, other_end = multiprocessing.Pipe()
    llm = client(SimpleNamespace(sentinel=sentinel))
    coordinator.watch_coordinator(llm)
    assert not llm.engine_core.resources.engine_dead
    other_end.close()  # as at the end of a process
    wait_until(lambda: llm.engine_core.resources.engine_dead)
    sentinel.close()


def test_one_engine_has_none() -> None:
    coordinator.watch_coordinator(client(None))
