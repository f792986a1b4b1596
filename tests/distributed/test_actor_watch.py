"""An engine that is an actor of Ray counts as dead as soon as it has ended, however it ended."""

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from segue.distributed.actor_watch import watch_actors
from tests.support.waiting import PATIENCE_S


class Ray:
    """Stands in for the package: actors end when the test says so."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.looked = threading.Event()

    def wait(self, runs: list[str], timeout: float) -> tuple[list[str], list[str]]:
        assert runs == ["first", "second"]
        self.looked.set()
        return (runs[:1], runs[1:]) if self.ended.wait(timeout) else ([], runs)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Ray:
    stand_in = Ray()
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    return stand_in


def client(manager: Any) -> Any:
    resources = SimpleNamespace(engine_manager=manager, engine_dead=False)
    return SimpleNamespace(engine_core=SimpleNamespace(resources=resources))


def actors() -> Any:
    return SimpleNamespace(
        get_run_refs=lambda: ["first", "second"], manager_stopped=threading.Event()
    )


def watches() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "actor-watch"]


def test_an_ended_actor_is_a_dead_engine(ray: Ray) -> None:
    llm = client(actors())
    watch_actors(llm)
    assert ray.looked.wait(PATIENCE_S)
    assert not llm.engine_core.resources.engine_dead
    [watch] = watches()
    ray.ended.set()
    watch.join(PATIENCE_S)
    assert llm.engine_core.resources.engine_dead


def test_an_engine_that_is_shut_down_is_not_called_dead(ray: Ray) -> None:
    manager = actors()
    llm = client(manager)
    watch_actors(llm)
    assert ray.looked.wait(PATIENCE_S)
    [watch] = watches()
    manager.manager_stopped.set()
    ray.ended.set()
    watch.join(PATIENCE_S)
    assert not watch.is_alive()
    assert not llm.engine_core.resources.engine_dead


def test_processes_are_left_to_vllm() -> None:
    watch_actors(client(SimpleNamespace()))
    watch_actors(client(None))
    assert watches() == []
