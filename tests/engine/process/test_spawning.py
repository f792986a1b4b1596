"""A process that is started apart, and the signals that a terminal sends to all of its processes."""

import multiprocessing
import signal
from multiprocessing.connection import Connection

import pytest

from segue.engine.process.spawning import ignore_signals, start_apart
from tests.support.waiting import PATIENCE_S


def see(told: Connection) -> None:
    """Tell whether SIGINT is blocked, and whether it is ignored: at first, and afterwards."""
    for _ in range(2):
        is_blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
        told.send((is_blocked, signal.getsignal(signal.SIGINT) == signal.SIG_IGN))
        ignore_signals()


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="there are no signal masks")
def test_an_interrupt_cannot_end_a_process_that_is_starting() -> None:
    """Ctrl-C while a model loads showed the traceback of a worker in the middle of its imports."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=see, args=(theirs,))
    start_apart(process, None)
    theirs.close()
    is_blocked, _ = ours.recv()  # a shell may have tests in the background ignore it from the start
    assert is_blocked
    assert ours.recv() == (False, True)
    process.join(PATIENCE_S)
    assert process.exitcode == 0
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
