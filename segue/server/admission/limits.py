"""Admission limits: a bounded queue for all tenants, and rate limits on requests and tokens per tenant.

Tokens are charged as they are generated, so requests that already run can bring a tenant's balance below zero; further
requests are then refused until it is positive again. Several server processes count together (ledger.py).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from segue.errors import Overloaded
from segue.server.admission.ledger import Account, Ledger
from segue.server.framing import Header

_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0
_RETRIES_PER_S = 100  # retries of refused requests; more would slow down running streams
_PACE_WEIGHT = 0.1  # of the latest interval between two starts, in their running mean


@dataclass(frozen=True)
class Limits:
    """0 is no limit; all but the queue are per key."""

    max_queue: int = 512  # requests that wait for their first token
    max_concurrent: int = 0
    requests_per_minute: int = 0
    tokens_per_minute: int = 0


class Bucket:
    """A token bucket: refilled by so much per minute, up to one minute's worth."""

    def __init__(self, per_minute: int, values: "memoryview[float]", place: int) -> None:
        """`values[place]` is the level, and the next number the moment at which it was right."""
        self.capacity = per_minute
        self._values = values
        self._place = place

    def fill(self, now: float) -> None:
        self._values[self._place], self._values[self._place + 1] = float(self.capacity), now

    def level(self, now: float) -> float:
        values, place = self._values, self._place
        gained = (now - values[place + 1]) * self.capacity / 60
        values[place] = level = min(values[place] + gained, float(self.capacity))
        values[place + 1] = now
        return float(level)

    def take(self, amount: int, now: float) -> None:
        self._values[self._place] = self.level(now) - amount

    def wait_s(self, amount: float, now: float) -> float:
        """Seconds until `amount` is available."""
        return max(0.0, amount - self.level(now)) * 60 / self.capacity


@dataclass(frozen=True)
class _Key:
    """One key: its account, and its buckets."""

    account: Account
    buckets: dict[str, Bucket]


class Limiter:
    """Public methods take the ledger's lock, for as long as they compute; those with an underscore need it."""

    def __init__(
        self,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
        ledger: Ledger | None = None,
    ) -> None:
        self.limits = limits
        self.clock = clock
        self.ledger = ledger or Ledger()
        self._keys: dict[str, _Key] = {}
        with self.ledger.lock:
            self.ledger.last_start = self.ledger.last_start or clock()

    def check(self, tenant: str) -> None:
        """Raise Overloaded if a request would not be admitted now. Charges nothing."""
        with self.ledger.lock:
            self._check(tenant)

    def _check(self, tenant: str) -> _Key:
        key = self._key(tenant)
        self._check_queue(key, bool(tenant))
        self._check_key(key, self.clock())
        return key

    def admit(self, tenant: str) -> "Permit":
        with self.ledger.lock:
            key = self._check(tenant)
            if "requests" in key.buckets:
                key.buckets["requests"].take(1, self.clock())
            return Permit(self, key)

    @property
    def num_waiting(self) -> int:
        return self.ledger.num_waiting

    @property
    def is_full(self) -> bool:
        return self.num_waiting >= self.limits.max_queue

    def _key(self, tenant: str) -> _Key:
        if tenant not in self._keys:
            account, is_new = self.ledger.account(tenant)
            rates = {
                "requests": self.limits.requests_per_minute,
                "tokens": self.limits.tokens_per_minute,
            }
            buckets = {
                name: Bucket(rate, self.ledger.values, account.buckets + 2 * number)
                for number, (name, rate) in enumerate(rates.items())
                if rate
            }
            if is_new:
                for bucket in buckets.values():
                    bucket.fill(self.clock())
            self._keys[tenant] = _Key(account, buckets)
        return self._keys[tenant]

    def _check_queue(self, key: _Key, has_key: bool) -> None:
        # One key gets half of the queue at most, so that other keys can be admitted.
        share = max(self.limits.max_queue // 2, 1) if has_key else self.limits.max_queue
        if self.is_full or key.account.num_waiting >= share:
            wait_s = self._spread_retry_s(self.num_waiting * self.ledger.pace_s)
            raise Overloaded("The queue is full; try again later.", retry_after_s=wait_s)

    def _spread_retry_s(self, least_s: float) -> float:
        """Retry-after times spread out, so that refused clients do not all retry at once."""
        now = self.clock()
        before = self.ledger.next_retry
        turn = max(before + 1 / _RETRIES_PER_S, now + max(least_s, _SHORTEST_WAIT_S))
        self.ledger.next_retry = min(turn, now + _LONGEST_WAIT_S)
        return self.ledger.next_retry - now

    def _check_key(self, key: _Key, now: float) -> None:
        most = self.limits.max_concurrent
        if most and key.account.num_open >= most:
            message = f"At most {most} requests at once; wait for one of them."
            raise Overloaded(message, retry_after_s=_SHORTEST_WAIT_S)
        for name, bucket in key.buckets.items():
            if wait_s := bucket.wait_s(1, now):
                message = f"At most {bucket.capacity} {name} per minute."
                raise Overloaded(message, retry_after_s=max(wait_s, 0.001))

    def started(self) -> None:
        """A waiting request has its first token."""
        ledger, now = self.ledger, self.clock()
        with ledger.lock:
            ledger.pace_s += _PACE_WEIGHT * (now - ledger.last_start - ledger.pace_s)
            ledger.last_start = now

    def headers(self, tenant: str) -> list[Header]:
        """OpenAI's rate limit headers, for each rate that is limited."""
        with self.ledger.lock:
            now, buckets = self.clock(), self._key(tenant).buckets
            states = {
                name: {
                    "limit": f"{bucket.capacity}",
                    "remaining": f"{max(0, int(bucket.level(now)))}",
                    "reset": _duration(bucket.wait_s(bucket.capacity, now)),
                }
                for name, bucket in buckets.items()
            }
        return [
            (f"x-ratelimit-{what}-{name}".encode(), value.encode())
            for name, state in states.items()
            for what, value in state.items()
        ]


class Permit:
    """One admitted request. It is in the queue until `begin`, and counts for its key until `release`."""

    def __init__(self, limiter: Limiter, key: _Key) -> None:
        self._limiter = limiter
        self._account = key.account
        self._tokens = key.buckets.get("tokens")
        self._is_waiting = True
        self._width = 1
        self._account.add_open(1)
        self._account.add_waiting(1)

    def widen(self, num_candidates: int) -> None:
        """Count the request as `num_candidates` requests of its key. Raises Overloaded."""
        most, more = self._limiter.limits.max_concurrent, num_candidates - self._width
        with self._limiter.ledger.lock:
            if most and self._account.num_open + more > max(most, num_candidates):
                message = f"At most {most} requests or candidates at once; wait for one of them."
                raise Overloaded(message, retry_after_s=_SHORTEST_WAIT_S)
            self._width += more
            self._account.add_open(more)

    def begin(self) -> None:
        if self._is_waiting:
            self._leave_queue()
            self._limiter.started()

    def charge(self, num_tokens: int) -> None:
        if self._tokens is not None:
            with self._limiter.ledger.lock:
                self._tokens.take(num_tokens, self._limiter.clock())

    def release(self) -> None:
        """End the request's accounting. To be called once."""
        if self._is_waiting:
            self._leave_queue()
        self._account.add_open(-self._width)

    def _leave_queue(self) -> None:
        self._is_waiting = False
        self._account.add_waiting(-1)


def _duration(seconds: float) -> str:
    """A duration in Go's notation: 120ms, 1.5s, 6m0s."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}m{rest:.3g}s" if minutes else f"{rest:.3g}s"
