"""How many processors this process may use, by its affinity and its container's quota; and who gives way on them."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from segue.machine import control_groups, words


def usable_cpus(root: Path = Path("/")) -> int:
    """At least 1. Threads beyond a quota would only be throttled, so a fraction is rounded down."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows have no affinity
        allowed = os.cpu_count() or 1
    return max(1, min([allowed, *(int(quota) for quota in _quotas(root))]))


def wait_for_a_free_one() -> None:
    """Let the calling thread never interrupt another when it wakes: it runs on a processor that is free or given up.

    A phase of a step ends with its last piece, so whoever interrupts the thread that has it delays them all; threads
    that must wait at the end of a phase give up their processors. The system still bounds the wait to a few
    milliseconds. Threads and processes that are started from here do the same, until they say otherwise. Nothing
    happens on systems without such a policy.
    """
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def interrupt_as_usual() -> None:
    """Undo `wait_for_a_free_one`, for the calling thread."""
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _quotas(root: Path) -> Iterator[float]:
    for folder in control_groups("cpu", root):
        limit, period = [*words(folder / "cpu.max"), "", ""][:2]  # version 2
        if not limit:
            limit = " ".join(words(folder / "cpu.cfs_quota_us"))  # version 1
            period = " ".join(words(folder / "cpu.cfs_period_us"))
        if limit.isdigit() and period.isdigit() and int(period):  # "max" and -1 are no limit
            yield int(limit) / int(period)
