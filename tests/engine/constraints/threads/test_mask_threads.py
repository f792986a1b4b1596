import threading
from collections.abc import Callable, Iterator

import pytest

from segue.engine.constraints.threads.fair_queue import Lexer
from segue.engine.constraints.threads.mask_threads import (
    NUM_QUICK,
    NUM_SLOW,
    MaskThreads,
    SlowSearch,
)
from segue.engine.constraints.threads.pool import GIVE_UP_S

PATIENCE_S = 60.0


class Gate:
    """A search that begins and then waits."""

    def __init__(self) -> None:
        self.has_begun, self.opened = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.has_begun.set()
        assert self.opened.wait(PATIENCE_S)
        return threading.current_thread().name


@pytest.fixture
def gates() -> Iterator[Callable[[], Gate]]:
    made: list[Gate] = []

    def make() -> Gate:
        made.append(Gate())
        return made[-1]

    yield make
    for gate in made:
        gate.opened.set()


def name() -> str:
    return threading.current_thread().name


def test_slow_lexers_keep_nobody_else_waiting(gates: Callable[[], Gate]) -> None:
    """Six of them had all threads there were."""
    threads = MaskThreads()
    for pool in threads._pools.values():
        pool._clock = lambda: 0.0  # else those that are slow would soon be replaced
    slow = [gates() for _ in range(6)]
    for gate in slow:
        threads.submit(Lexer(is_slow=True), gate)
    for gate in slow[:NUM_SLOW]:
        assert gate.has_begun.wait(PATIENCE_S)
    assert threads.submit(Lexer(), name).result(PATIENCE_S) == "mask"
    assert not any(gate.has_begun.is_set() for gate in slow[NUM_SLOW:])


def test_nor_do_those_that_turn_out_to_be_slow(gates: Callable[[], Gate]) -> None:
    """All threads are stuck, and soon no longer count."""
    threads = MaskThreads()
    for _ in range(NUM_QUICK):
        gate = gates()
        threads.submit(Lexer(), gate)
        assert gate.has_begun.wait(PATIENCE_S)
    assert threads.submit(Lexer(), name).result(PATIENCE_S) == "mask"


def test_a_search_may_go_on_among_the_slow() -> None:
    found = MaskThreads().submit(Lexer(), lambda: SlowSearch(name))
    assert found.result(PATIENCE_S) == "mask-slow"


def test_what_fails_fails_for_whoever_asked() -> None:
    class Panic(BaseException):
        """As those of llguidance: no Exception."""

    def fail() -> None:
        raise Panic

    threads = MaskThreads()
    assert isinstance(threads.submit(Lexer(), fail).exception(PATIENCE_S), Panic)
    assert threads.submit(Lexer(), name).result(PATIENCE_S) == "mask"


def test_a_lexer_that_takes_too_long_is_lost(
    gates: Callable[[], Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, lexer, gate = MaskThreads(), Lexer(), gates()
    pool = threads._pools[False]
    coming, next_one = threads.submit(lexer, gate), threads.submit(lexer, name)
    assert gate.has_begun.wait(PATIENCE_S)
    clock = pool._clock
    monkeypatch.setattr(pool, "_clock", lambda: clock() + GIVE_UP_S + 1)
    threads._look()
    assert coming.result(PATIENCE_S) is None
    assert next_one.result(PATIENCE_S) is None
    assert lexer.is_lost
    assert threads.submit(lexer, name).result(PATIENCE_S) is None
    gate.opened.set()
    assert threads.submit(Lexer(), name).result(PATIENCE_S) == "mask"


def test_nobody_waits_for_a_thread_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, lexer = MaskThreads(), Lexer()

    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="no thread"):
            threads.submit(lexer, name)
    assert threads.submit(lexer, name).result(PATIENCE_S) == "mask"
