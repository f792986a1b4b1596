"""Importing many modules at once."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def many() -> Iterator[None]:
    """Nothing is looked for among what modules make, which stays: that took a seventh of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
