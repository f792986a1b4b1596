"""Admission limits: a bounded queue for all tenants, and rate limits on requests and tokens per tenant.

Tokens are charged as they are generated, so requests that already run can bring a tenant's balance below zero; further
requests are then refused until it is positive again.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from segue.errors import Overloaded
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

    def __init__(self, per_minute: int, now: float) -> None:
        self.capacity = per_minute
        self._level = float(per_minute)
        self._at = now

    def level(self, now: float) -> float:
        gained = (now - self._at) * self.capacity / 60
        self._level, self._at = min(self._level + gained, self.capacity), now
        return self._level

    def take(self, amount: int, now: float) -> None:
        self._level = self.level(now) - amount

    def wait_s(self, amount: float, now: float) -> float:
        """Seconds until `amount` is available."""
        return max(0.0, amount - self.level(now)) * 60 / self.capacity


class _Account:
    def __init__(self, limits: Limits, now: float) -> None:
        self.num_open = 0
        self.num_waiting = 0
        rates = {"requests": limits.requests_per_minute, "tokens": limits.tokens_per_minute}
        self.buckets = {name: Bucket(rate, now) for name, rate in rates.items() if rate}


class Limiter:
    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.clock = clock
        self.num_waiting = 0
        self.num_refused = 0
        self._accounts: dict[str, _Account] = {}
        self._pace_s = 0.0
        self._last_start = clock()
        self._next_retry = 0.0

    def check(self, tenant: str) -> None:
        """Raise Overloaded if a request would not be admitted now. Charges nothing."""
        account, now = self._account(tenant), self.clock()
        try:
            self._check_queue(account, bool(tenant))
            self._check_account(account, now)
        except Overloaded:
            self.num_refused += 1
            raise

    def admit(self, tenant: str) -> "Permit":
        self.check(tenant)
        account = self._account(tenant)
        if "requests" in account.buckets:
            account.buckets["requests"].take(1, self.clock())
        return Permit(self, account)

    @property
    def is_full(self) -> bool:
        return self.num_waiting >= self.limits.max_queue

    def _account(self, tenant: str) -> _Account:
        if tenant not in self._accounts:
            self._accounts[tenant] = _Account(self.limits, self.clock())
        return self._accounts[tenant]

    def _check_queue(self, account: _Account, has_key: bool) -> None:
        # One key gets half of the queue at most, so that other keys can be admitted.
        share = max(self.limits.max_queue // 2, 1) if has_key else self.limits.max_queue
        if self.is_full or account.num_waiting >= share:
            wait_s = self._spread_retry_s(self.num_waiting * self._pace_s)
            raise Overloaded("The queue is full; try again later.", retry_after_s=wait_s)

    def _spread_retry_s(self, least_s: float) -> float:
        """Retry-after times spread out, so that refused clients do not all retry at once."""
        now = self.clock()
        turn = max(self._next_retry + 1 / _RETRIES_PER_S, now + max(least_s, _SHORTEST_WAIT_S))
        self._next_retry = min(turn, now + _LONGEST_WAIT_S)
        return self._next_retry - now

    def _check_account(self, account: _Account, now: float) -> None:
        most = self.limits.max_concurrent
        if most and account.num_open >= most:
            message = f"At most {most} requests at once; wait for one of them."
            raise Overloaded(message, retry_after_s=_SHORTEST_WAIT_S)
        for name, bucket in account.buckets.items():
            if wait_s := bucket.wait_s(1, now):
                message = f"At most {bucket.capacity} {name} per minute."
                raise Overloaded(message, retry_after_s=max(wait_s, 0.001))

    def started(self) -> None:
        """A waiting request has its first token."""
        now = self.clock()
        self._pace_s += _PACE_WEIGHT * (now - self._last_start - self._pace_s)
        self._last_start = now

    def headers(self, tenant: str) -> list[Header]:
        """OpenAI's rate limit headers, for each rate that is limited."""
        now, headers = self.clock(), []
        for name, bucket in self._account(tenant).buckets.items():
            values = {
                "limit": f"{bucket.capacity}",
                "remaining": f"{max(0, int(bucket.level(now)))}",
                "reset": _duration(bucket.wait_s(bucket.capacity, now)),
            }
            for what, value in values.items():
                headers.append((f"x-ratelimit-{what}-{name}".encode(), value.encode()))
        return headers


class Permit:
    """One admitted request. It is in the queue until `begin`, and counts for its key until `release`."""

    def __init__(self, limiter: Limiter, account: _Account) -> None:
        self._limiter = limiter
        self._account = account
        self._is_waiting = True
        self._width = 1
        account.num_open += 1
        account.num_waiting += 1
        limiter.num_waiting += 1

    def widen(self, num_candidates: int) -> None:
        """Count the request as `num_candidates` requests of its key. Raises Overloaded."""
        most, more = self._limiter.limits.max_concurrent, num_candidates - self._width
        if most and self._account.num_open + more > max(most, num_candidates):
            message = f"At most {most} requests or candidates at once; wait for one of them."
            raise Overloaded(message, retry_after_s=_SHORTEST_WAIT_S)
        self._width += more
        self._account.num_open += more

    def begin(self) -> None:
        if self._is_waiting:
            self._leave_queue()
            self._limiter.started()

    def charge(self, num_tokens: int) -> None:
        if "tokens" in self._account.buckets:
            self._account.buckets["tokens"].take(num_tokens, self._limiter.clock())

    def release(self) -> None:
        """End the request's accounting. To be called once."""
        if self._is_waiting:
            self._leave_queue()
        self._account.num_open -= self._width

    def _leave_queue(self) -> None:
        self._is_waiting = False
        self._account.num_waiting -= 1
        self._limiter.num_waiting -= 1


def _duration(seconds: float) -> str:
    """A duration in Go's notation: 120ms, 1.5s, 6m0s."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}m{rest:.3g}s" if minutes else f"{rest:.3g}s"
