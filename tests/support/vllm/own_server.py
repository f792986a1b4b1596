"""vLLM's own server, as a process of its own, until the test is over.

Its address is a file in a folder that is its alone: a free port could be taken by another process before vLLM has it.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

START_S = 600.0  # vLLM imports and compiles for minutes where the machine is busy
_LOOK_S = 0.1


@contextlib.contextmanager
def vllm_serving(folder: Path, *arguments: str) -> Iterator[str]:
    """The path of the Unix socket on which the model in `folder` is served."""
    with tempfile.TemporaryDirectory(prefix="vllm-") as place:
        address, log = f"{place}/socket", Path(place) / "log"
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(folder), "--uds", address, *arguments]
        environment = os.environ | {"VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
        with (
            log.open("wb") as written,
            subprocess.Popen(command, env=environment, stdout=written, stderr=written) as process,
        ):
            try:
                wait_for_server(address, lambda: process.poll() is None, log)
                yield address
            finally:
                process.send_signal(signal.SIGTERM)


def wait_for_server(address: str, is_alive: Callable[[], bool], log: Path) -> None:
    """Until a connection is accepted. What the server says of itself comes before that: uvicorn logs "startup
    complete", listens then, and says nothing more of a socket that it was given. Raises RuntimeError."""
    deadline = time.monotonic() + START_S
    while not accepts(address):
        if not is_alive() or time.monotonic() > deadline:
            raise RuntimeError(f"vLLM's server did not start:\n{log.read_text('utf-8', 'replace')}")
        time.sleep(_LOOK_S)


def accepts(address: str) -> bool:
    """Whether a server listens on that Unix socket. One that is bound to it need not do so yet."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(address)
        except OSError:
            return False
        return True
