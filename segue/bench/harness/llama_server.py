"""llama.cpp's own server as a process: the one in the xllamacpp wheel, or a `llama-server` built on the machine."""

import contextlib
import json
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

# Built ones tell it in a line with the word `listening`. So does the wheel's log, but others' pieces may stand in that
# line: there it is told in a line of its own, behind a line break.
_ADDRESS = re.compile(r"http://[\d.]+:\d{1,5}(?!\d)")
_OF_WHEEL = "address of the server: "

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
        begin = _OF_WHEEL
        command = [sys.executable, "-c", _WHEEL, path, str(threads), json.dumps(settings), begin]
    else:
        begin = ""
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
        address = _address(process.stdout or (), begin, said)
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


def _address(lines: Iterable[str], begin: str, said: deque[str]) -> str | None:
    """Waits for it, in a line that begins so; `said` gets the lines until then. None if they end without one."""
    for line in lines:
        said.append(line)
        if not line.startswith(begin) or not (begin or "listening" in line):
            continue
        if found := _ADDRESS.search(line):
            return found[0]
    return None
