"""How long tests wait for what another thread or process does."""

import time
from collections.abc import Callable

PATIENCE_S = (
    100.0  # more than a busy machine ever stands still, and less than pytest's limit for a test
)


def wait_until(is_so: Callable[[], object]) -> None:
    """Look again and again, until it is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"not so within {PATIENCE_S:.0f} seconds")
        time.sleep(0.005)
