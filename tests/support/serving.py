"""The real thing: `segue serve` as a process of its own, on a free port, until the test is over."""

import contextlib
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.waiting import PATIENCE_S

READY = re.compile(r"segue is ready: (\S+)")


@dataclass(frozen=True)
class Served:
    url: str
    process: subprocess.Popen[str]
    log: list[str]
    reading: threading.Thread  # of its log


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "segue", "serve", "--port", "0", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            served = _wait_until_ready(process)
            yield served
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
        # Its children may write a little longer than it lives.
        served.reading.join(PATIENCE_S)


def _wait_until_ready(process: subprocess.Popen[str]) -> Served:
    log: list[str] = []
    stderr = process.stderr
    assert stderr is not None
    for line in stderr:
        log.append(line)
        found = READY.search(line)
        if found:
            # Keep reading, or a full pipe would stop the server.
            reading = threading.Thread(target=lambda: log.extend(stderr), daemon=True)
            reading.start()
            return Served(found[1], process, log, reading)
    raise RuntimeError("the server ended before it was ready:\n" + "".join(log))
