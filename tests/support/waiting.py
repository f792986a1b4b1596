"""How long tests wait for what another thread or process does."""

import time
from collections.abc import Callable

PATIENCE_S = (
    100.0  # more than a busy machine ever stands still, and less than pytest's limit for a test
)
LOADING_S = 300.0  # for the first answer of a model, which the compiler may have to be waited for
SOON_S = 20.0  # of the processor: most take milliseconds, none two seconds on a slow one, an emulator ten times as long


def wait_until(is_so: Callable[[], object]) -> None:
    """Look again and again, until it is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"not so within {PATIENCE_S:.0f} seconds")
        time.sleep(0.005)
