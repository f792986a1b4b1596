"""A worker that is started before anything else is imported."""

import subprocess
import sys

import pytest

from segue import config
from segue.assembly.ahead import worker_ahead, worker_sockets

# What takes long to import, of which the worker's process imports for itself what it needs.
LATER = {
    "asyncio",
    "jinja2",
    "numpy",
    "rich",
    "starlette",
    "uvicorn",
    "segue.dialects",
    "segue.engine.seam",
    "segue.server",
}
# Modules that start one, and what they need even so.
STARTERS = {
    "segue.serving": set(),
    "segue.commands.complete": set(),
    "segue.commands.score": set(),
    "segue.commands.verify": set(),
    "segue.library.llm": {"asyncio"},
}


@pytest.mark.parametrize("module", STARTERS)
def test_the_worker_is_started_before_the_rest_is_imported(module: str) -> None:
    """A start took as long as both after one another."""
    program = f"import sys, {module}; print(sorted({LATER} & sys.modules.keys()))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == f"{sorted(STARTERS[module])}\n", found.stderr


def test_a_worker_that_nobody_needs_ends() -> None:
    with worker_ahead(config.load({"runner": "fake"})) as worker:
        assert worker is not None
        assert worker.process.is_alive()
    assert not worker.process.is_alive()


def test_where_no_model_of_ours_runs_there_is_none() -> None:
    with worker_ahead(None) as worker:
        assert worker is None
    with worker_ahead(config.load({"engine": "vllm"})) as worker:
        assert worker is None


def test_only_several_server_processes_need_sockets() -> None:
    with worker_sockets(config.load({"server_processes": 1})) as sockets:
        assert sockets is None
