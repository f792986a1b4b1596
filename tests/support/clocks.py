"""A clock of the processor that shows what a test says, to the thread of that test alone."""

import threading
import time
from collections.abc import Iterable

import pytest


def show(monkeypatch: pytest.MonkeyPatch, times: Iterable[float]) -> None:
    """One after the other; a thread that still finds a mask for the test before has its own time."""
    shown, ours, usual = iter(times), threading.get_ident(), time.thread_time
    monkeypatch.setattr(
        time, "thread_time", lambda: next(shown) if threading.get_ident() == ours else usual()
    )
