from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.errors import Overloaded
from segue.processes.shared_numbers import SharedNumbers
from segue.server.admission.limits import Bucket, Limiter, Limits, Permit


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_queue_is_bounded_by_those_without_a_first_token() -> None:
    limiter = Limiter(Limits(max_queue=2), Clock())
    first, second = limiter.admit(""), limiter.admit("")
    with pytest.raises(Overloaded) as refusal:
        limiter.check("")
    assert refusal.value.status == 429
    assert (refusal.value.retry_after_s or 0) >= 1
    assert limiter.is_full
    first.begin()
    third = limiter.admit("")
    second.release()
    third.release()
    first.release()
    assert limiter.num_waiting == 0


def test_one_key_may_fill_half_of_the_queue() -> None:
    limiter = Limiter(Limits(max_queue=4), Clock())
    for _ in range(2):
        limiter.admit("greedy")
    with pytest.raises(Overloaded):
        limiter.check("greedy")
    limiter.admit("modest")


def test_the_advice_to_wait_follows_the_pace_of_the_queue() -> None:
    clock = Clock()
    limiter = Limiter(Limits(max_queue=10), clock)
    for _ in range(200):
        clock.now += 2.0
        permit = limiter.admit("")
        permit.begin()
        permit.release()
    for _ in range(10):
        limiter.admit("")
    with pytest.raises(Overloaded) as refusal:
        limiter.check("")
    assert refusal.value.retry_after_s == pytest.approx(20.0, rel=0.01)


def refused_for_s(limiter: Limiter) -> float:
    with pytest.raises(Overloaded) as refusal:
        limiter.check("")
    return refusal.value.retry_after_s or 0.0


def test_a_crowd_is_told_to_come_back_one_by_one() -> None:
    """A thousand at once are spread over ten seconds, and are then no more than a hundred a second."""
    clock = Clock()
    limiter = Limiter(Limits(max_queue=1), clock)
    limiter.admit("")
    told = [refused_for_s(limiter) for _ in range(1000)]
    assert told[0] == 1.0
    assert told[-1] == pytest.approx(10.99)
    assert all(later - sooner == pytest.approx(0.01) for sooner, later in pairwise(told))
    for moment in told:  # they do as they were told, and are told the same again
        clock.now = 1000.0 + moment
        assert refused_for_s(limiter) == pytest.approx(10.0)


def test_those_who_do_not_listen_wait_a_minute_at_most_and_are_forgotten() -> None:
    clock = Clock()
    limiter = Limiter(Limits(max_queue=1), clock)
    limiter.admit("")
    assert max(refused_for_s(limiter) for _ in range(20_000)) == 60.0
    clock.now += 60
    assert refused_for_s(limiter) == 1.0


def test_concurrency_is_each_keys_own() -> None:
    limiter = Limiter(Limits(max_concurrent=1), Clock())
    permit = limiter.admit("a")
    permit.begin()
    with pytest.raises(Overloaded, match="At most 1 requests at once"):
        limiter.admit("a")
    limiter.admit("b").release()
    permit.release()
    limiter.admit("a")


def test_requests_a_minute() -> None:
    clock = Clock()
    limiter = Limiter(Limits(requests_per_minute=2), clock)
    for _ in range(2):
        limiter.admit("a").release()
    with pytest.raises(Overloaded, match="At most 2 requests per minute") as refusal:
        limiter.admit("a")
    assert refusal.value.retry_after_s == pytest.approx(30.0)
    assert dict(limiter.headers("a")) == {
        b"x-ratelimit-limit-requests": b"2",
        b"x-ratelimit-remaining-requests": b"0",
        b"x-ratelimit-reset-requests": b"1m0s",
    }
    limiter.admit("b")
    clock.now += 30
    limiter.admit("a")


def test_tokens_are_charged_as_they_come_and_may_overdraw() -> None:
    clock = Clock()
    limiter = Limiter(Limits(tokens_per_minute=60), clock)
    permit = limiter.admit("a")
    permit.charge(90)
    with pytest.raises(Overloaded, match="At most 60 tokens per minute") as refusal:
        limiter.admit("a")
    assert refusal.value.retry_after_s == pytest.approx(31.0)
    assert dict(limiter.headers("a"))[b"x-ratelimit-remaining-tokens"] == b"0"
    clock.now += 32
    limiter.admit("a")


@given(
    st.integers(1, 10_000),
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 1000)), max_size=20),
)
def test_a_bucket_never_gives_more_than_its_rate(rate: int, uses: list[tuple[float, int]]) -> None:
    now, taken = 0.0, 0
    bucket = Bucket(rate, SharedNumbers(2, path=None).values, 0)
    bucket.fill(now)
    for pause, amount in uses:
        now += pause
        if not bucket.wait_s(1, now):
            bucket.take(amount, now)
            taken += amount
        assert bucket.level(now) <= rate
    biggest = max((amount for _, amount in uses), default=0)
    assert taken <= rate + rate * now / 60 + biggest + 1


@given(st.lists(st.sampled_from(["admit", "begin", "release"]), max_size=60))
def test_places_are_accounted_for(moves: list[str]) -> None:
    """Whatever order requests come, begin and end in: none leaves a place taken behind."""
    limiter = Limiter(Limits(max_queue=3), Clock())
    waiting: list[Permit] = []
    running: list[Permit] = []
    for move in moves:
        if move == "admit":
            if len(waiting) < 3:
                waiting.append(limiter.admit(""))
            else:
                with pytest.raises(Overloaded):
                    limiter.admit("")
        elif move == "begin" and waiting:
            running.append(waiting.pop())
            running[-1].begin()
            running[-1].begin()
        elif move == "release" and (running or waiting):
            (running or waiting).pop().release()
        assert limiter.num_waiting == len(waiting)
    for permit in (*waiting, *running):
        permit.release()
    assert limiter.num_waiting == 0


def test_candidates_count_as_requests_at_once() -> None:
    limiter = Limiter(Limits(max_concurrent=4), Clock())
    first = limiter.admit("key")
    first.widen(3)
    second = limiter.admit("key")
    with pytest.raises(Overloaded, match="candidates"):
        second.widen(2)
    with pytest.raises(Overloaded):
        limiter.admit("key")
    limiter.admit("other").widen(4)
    first.release()
    second.widen(4)
    second.release()
    alone = limiter.admit("key")
    alone.widen(64)  # more than may be at once: one at a time
    with pytest.raises(Overloaded):
        limiter.admit("key")
