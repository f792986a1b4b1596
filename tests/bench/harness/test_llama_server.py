import stat
import sys
from collections import deque
from pathlib import Path

import pytest

from segue.bench.harness.llama_server import (
    _OF_BUILT,
    _OF_WHEEL,
    _address,
    built_arguments,
    llama_server,
)
from tests.support.waiting import wait_until

SCRIPT = """#!{python}
import sys
{said}
sys.stdin.read()
"""


def _script(folder: Path, said: str) -> str:
    """A program in the place of llama-server, which is not in any package."""
    file = folder / "llama-server"
    file.write_text(SCRIPT.format(python=sys.executable, said=said))
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def test_settings_become_flags() -> None:
    settings = {"n_parallel": 32, "n_ctx": 4096, "endpoint_metrics": True, "n_cache_reuse": 0}
    assert built_arguments("x.gguf", 4, settings)[-11:] == [
        *("--threads", "4", "--threads-batch", "4"),
        *("--parallel", "32", "--ctx-size", "4096", "--metrics", "--cache-reuse", "0"),
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="a script is no program there")
def test_its_address_is_read_and_its_log_never_stops_it(tmp_path: Path) -> None:
    logged = tmp_path / "logged"
    said = f"""
print("srv: listening on http://127.0.0.1:4321", flush=True)
for _ in range(100_000):
    print("slot update")
sys.stdout.flush()
open({str(logged)!r}, "w").close()
"""
    with llama_server("x.gguf", 1, {}, _script(tmp_path, said)) as address:
        assert address == "http://127.0.0.1:4321"
        wait_until(logged.exists)


def test_pieces_of_the_wheels_log_are_not_taken_for_its_address() -> None:
    """Its threads write to the pipe that the address comes through: once a port above 65,535 was read there."""
    said: deque[str] = deque()
    log = [
        "srv init: listening on http://127.0.0.1:376210.00.945 I\n",
        "listening http://127.0.0.1:1\n",
    ]
    right = f"{_OF_WHEEL}http://127.0.0.1:37621\n"
    assert (
        _address([*log, "0.00.945.267 I srv ", right], _OF_WHEEL, said) == "http://127.0.0.1:37621"
    )
    assert _address(log, _OF_WHEEL, said) is None
    assert _address(log[:1], _OF_BUILT, said) is None


@pytest.mark.skipif(sys.platform == "win32", reason="a script is no program there")
def test_what_it_said_is_shown_if_it_does_not_start(tmp_path: Path) -> None:
    with (
        pytest.raises(SystemExit, match="no such model"),
        llama_server("x.gguf", 1, {}, _script(tmp_path, 'sys.exit("no such model")')),
    ):
        raise AssertionError("it has no address")


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    missing = str(tmp_path / "llama-server")
    with (
        pytest.raises(SystemExit, match="cannot be run: No such file"),
        llama_server("x.gguf", 1, {}, missing),
    ):
        raise AssertionError("it has no address")
