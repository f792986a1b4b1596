"""How the thread of an engine ends, whoever ends it."""

import asyncio
import gc
import os
import subprocess
import sys
import typing
from concurrent.futures import CancelledError, Future
from pathlib import Path

import pytest

from segue import LLM
from segue.library.engine_thread import EngineThread
from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parent.parent.parent


def test_garbage_that_the_engines_own_thread_collects_is_closed_too() -> None:
    """It waited for itself for half a minute, and then left the model's process behind, on which the program waited at
    its end, for ever."""
    llm: typing.Any = LLM(runner="fake")
    thread, process = llm._thread, llm._thread.engine._process
    llm.itself = llm
    del llm
    thread._loop.call_soon_threadsafe(gc.collect)
    thread._thread.join(PATIENCE_S)
    assert not thread._thread.is_alive()
    assert not process.is_alive()


def test_whoever_waits_for_something_as_it_is_closed_waits_no_longer() -> None:
    llm = LLM(runner="fake")
    waiting = llm._thread.run(asyncio.sleep(1000))
    llm.close()
    with pytest.raises(CancelledError):
        waiting.result(PATIENCE_S)


def test_a_load_that_is_interrupted_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Ctrl-C in a notebook: it was told later that nobody had taken its error."""
    run, loads = EngineThread.run, list[Future[typing.Any]]()

    def interrupted(self: EngineThread, work: typing.Any) -> typing.Any:
        def wait() -> None:
            raise KeyboardInterrupt

        loads.append(running := run(self, work))
        running.result = wait  # type: ignore[method-assign, assignment]
        return running

    monkeypatch.setattr(EngineThread, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        LLM(runner="fake")
    assert loads[0].cancelled()


FORK = """
import os
from segue import LLM
from segue.errors import EngineFault
llm = LLM(runner="fake")
if child := os.fork():
    os.waitpid(child, 0)
    print("parent", len(llm.complete("x", max_tokens=4, seed=1).tokens))
else:
    try:
        llm.complete("x")
    except EngineFault as error:
        print("child", error, flush=True)
    llm.close()
    os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_model_is_of_the_process_that_loaded_it() -> None:
    """A process that was forked was told that it is closed."""
    command = [sys.executable, "-W", "ignore", "-c", FORK]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE_S)
    child, parent = done.stdout.splitlines()
    assert child == "child this LLM is of the process that forked this one, which needs its own"
    assert parent == "parent 4"
