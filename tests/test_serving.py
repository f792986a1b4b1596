"""`segue serve`, up to where its server is made."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from segue import config
from segue.assembly.ahead import worker_ahead
from segue.cli import cli

# What only a server needs, and what the worker's process imports for itself.
LATER = {"numpy", "starlette", "uvicorn", "segue.dialects", "segue.engine.seam", "segue.server"}


def test_the_worker_is_started_before_the_server_is_imported() -> None:
    """A start took as long as both after one another."""
    program = f"import sys, segue.serving; print({LATER} & sys.modules.keys())"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "set()\n", found.stderr


def test_a_worker_that_nobody_needs_ends() -> None:
    with worker_ahead(config.load({"runner": "fake"})) as worker:
        assert worker is not None
        assert worker.process.is_alive()
    assert not worker.process.is_alive()


@pytest.mark.parametrize("flags", [{"engine": "vllm"}, {"server_processes": 2}])
def test_others_make_their_workers_themselves(flags: dict[str, object]) -> None:
    with worker_ahead(config.load(flags)) as worker:
        assert worker is None


def test_what_is_wrong_is_still_one_sentence() -> None:
    result = CliRunner().invoke(cli, ["serve", "--runner", "fake", "--dialect", "klingon"])
    assert "there is no dialect 'klingon'" in str(result.exception)
