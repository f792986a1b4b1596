"""llama.cpp's own server as a process: the one in the xllamacpp wheel, or a `llama-server` built on the machine."""

import contextlib
import json
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

# What stands in the line that has it. The wheel's log says `listening` too, but others write to that pipe meanwhile: a
# port above 65,535 was read there once. So the wheel's has a line of its own, behind a line break.
_ADDRESS = re.compile(r"http://[\d.]+:\d{1,5}(?!\d)")
_OF_BUILT, _OF_WHEEL = "listening", "address of the server: "

_WHEEL = """
import json, sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, threads = sys.argv[1], int(sys.argv[2])
for name, value in json.loads(sys.argv[3]).items():
    setattr(params, name, value)
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
server = xllamacpp.Server(params)
print("\\n" + sys.argv[4] + server.listening_address, flush=True)
sys.stdin.read()
"""

Settings = Mapping[str, int | bool]

# What the wheel's settings are called on the command line.
_FLAGS = {
    "n_parallel": "--parallel",
    "n_ctx": "--ctx-size",
    "n_cache_reuse": "--cache-reuse",
    "endpoint_metrics": "--metrics",
}


@contextlib.contextmanager
def llama_server(
    path: str, threads: int, settings: Settings, binary: str | None = None
) -> Iterator[str]:
    """The address of llama.cpp's server with these settings, all others at their defaults."""
    if binary is None:
        mark = _OF_WHEEL
        command = [sys.executable, "-c", _WHEEL, path, str(threads), json.dumps(settings), mark]
    else:
        mark = _OF_BUILT
        command = [binary, *built_arguments(path, threads, settings)]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise SystemExit(f"{command[0]} cannot be run: {error.strerror}") from None
    with process:
        said: deque[str] = deque(maxlen=20)
        address = _address(process.stdout or (), mark, said)
        # What it logs later is read and forgotten, so that it never waits for a reader.
        reader = threading.Thread(target=said.extend, args=(process.stdout,))
        reader.start()
        try:
            if address is None:
                raise SystemExit(f"llama.cpp's server did not start:\n{''.join(said)}")
            yield address
        finally:
            process.terminate()
            reader.join()


def built_arguments(path: str, threads: int, settings: Settings) -> list[str]:
    """Of `llama-server`, for what the wheel is told by names."""
    arguments = ["--model", path, "--host", "127.0.0.1", "--port", "0"]
    arguments += ["--threads", str(threads), "--threads-batch", str(threads)]
    for name, value in settings.items():
        if value is True:
            arguments.append(_FLAGS[name])
        elif value is not False:
            arguments += [_FLAGS[name], str(value)]
    return arguments


def _address(lines: Iterable[str], mark: str, said: deque[str]) -> str | None:
    """Waits for it, in a line with this mark; `said` gets the lines until then. None if they end without one."""
    for line in lines:
        said.append(line)
        if mark in line and (found := _ADDRESS.search(line)):
            return found[0]
    return None
