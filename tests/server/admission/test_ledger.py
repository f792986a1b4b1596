"""Two limiters of two server processes, here in one program: what they count is the same."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.errors import Overloaded
from segue.processes.sharing import Sharing
from segue.server.admission.ledger import Ledger
from segue.server.admission.limits import Limiter, Limits, Permit
from tests.server.admission.test_limits import Clock

pytest.importorskip("fcntl", reason="numbers are shared where files can be locked")


def limiters(folder: Path, limits: Limits, clock: Clock, count: int = 2) -> list[Limiter]:
    return [
        Limiter(limits, clock, Ledger(Sharing(process=i, num_processes=count, folder=str(folder))))
        for i in range(count)
    ]


def test_the_queue_is_bounded_over_all_processes(tmp_path: Path) -> None:
    one, two = limiters(tmp_path, Limits(max_queue=3), Clock())
    permits = [one.admit(""), two.admit(""), one.admit("")]
    for limiter in (one, two):
        assert limiter.is_full
        with pytest.raises(Overloaded, match="queue is full"):
            limiter.admit("")
    permits[0].begin()
    two.admit("")
    assert (one.num_waiting, two.num_waiting) == (3, 3)


def test_limits_of_a_key_hold_over_all_processes(tmp_path: Path) -> None:
    clock = Clock()
    limits = Limits(max_concurrent=2, requests_per_minute=3, tokens_per_minute=100)
    one, two = limiters(tmp_path, limits, clock)
    first, second = one.admit("ada"), two.admit("ada")
    with pytest.raises(Overloaded, match="At most 2 requests at once"):
        one.admit("ada")
    one.admit("bob").release()
    first.release()
    two.admit("ada").release()
    with pytest.raises(Overloaded, match="At most 3 requests per minute"):
        one.admit("ada")
    second.charge(70)
    assert dict(one.headers("ada"))[b"x-ratelimit-remaining-tokens"] == b"30"
    assert one.headers("ada") == two.headers("ada")


def test_what_a_dead_process_had_open_is_taken_back(tmp_path: Path) -> None:
    one, two = limiters(tmp_path, Limits(max_queue=2, max_concurrent=2), Clock())
    two.admit("ada")
    two.admit("bob")
    with pytest.raises(Overloaded):
        one.check("ada")
    one.ledger.forget(1)
    assert one.num_waiting == 0
    kept = one.admit("ada")
    one.ledger.forget(1)
    assert one.num_waiting == 1
    kept.begin()
    kept.widen(2)
    with pytest.raises(Overloaded, match="At most 2"):
        two.check("ada")


def test_advice_to_wait_is_spread_over_all_processes(tmp_path: Path) -> None:
    one, two = limiters(tmp_path, Limits(max_queue=1), Clock())
    one.admit("")
    waits = []
    for limiter in (one, two, one):
        with pytest.raises(Overloaded) as refusal:
            limiter.check("")
        waits.append(refusal.value.retry_after_s)
    assert waits == pytest.approx([1.0, 1.01, 1.02])


def test_keys_beyond_the_table_share_its_last_account() -> None:
    limiter = Limiter(Limits(max_concurrent=1), Clock(), Ledger(max_keys=2))
    limiter.admit("a")
    limiter.admit("b")
    with pytest.raises(Overloaded):
        limiter.admit("c")


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["admit", "begin", "release"]))))
def test_processes_count_as_one_would(moves: list[tuple[int, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shared = limiters(Path(folder), Limits(max_queue=4, max_concurrent=6), Clock(), 3)
        alone = Limiter(Limits(max_queue=4, max_concurrent=6), Clock())
        pairs: list[tuple[Permit, Permit]] = []
        for process, move in moves:
            if move == "admit":
                outcomes = [_admit(limiter) for limiter in (shared[process], alone)]
                assert (outcomes[0] is None) == (outcomes[1] is None)
                if outcomes[0] is not None and outcomes[1] is not None:
                    pairs.append((outcomes[0], outcomes[1]))
            elif pairs:
                for permit in pairs[0] if move == "begin" else pairs.pop():
                    permit.begin() if move == "begin" else permit.release()
            assert {limiter.num_waiting for limiter in shared} == {alone.num_waiting}


def _admit(limiter: Limiter) -> Permit | None:
    try:
        return limiter.admit("key")
    except Overloaded:
        return None
