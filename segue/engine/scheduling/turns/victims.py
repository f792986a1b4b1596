"""Which running sequence gives its slot up when memory is full. What runs is listed by its start, the oldest first.

A tenant loses what matters least to it: of the highest priority number, the one that started last. Whose turn it is to
lose does not depend on priorities, so no tenant can push another aside. Without priorities it is the youngest.

There is always one that goes on: of the tenant whose sequence is the oldest, the most important one is not taken back.
"""

from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Listed

from segue.engine.request.sequence import Sequence


class Victims:
    def __init__(
        self,
        running: Listed[Sequence],
        tenant_of: Callable[[Sequence], str],
        priority_of: Callable[[Sequence], int],
    ) -> None:
        self._running = running
        self._tenant_of = tenant_of
        self._priority_of = priority_of

    @property
    def next(self) -> Sequence:
        """For one that runs: of the tenant whose sequence started last."""
        return self._least_of(self._tenant_of(self._running[-1]))

    def for_share(self, tenant: str) -> Sequence | None:
        """For one of this tenant that waits: of the tenant that runs most, if this one runs less than its share."""
        shares = self.shares()
        if not is_below_share(tenant, shares):
            return None
        return self._least_of(max(shares, key=shares.__getitem__))

    def shares(self) -> Counter[str]:
        """How many sequences of each tenant run."""
        return Counter(map(self._tenant_of, self._running))

    def _least_of(self, tenant: str) -> Sequence:
        own = [each for each in reversed(self._running) if self._tenant_of(each) == tenant]
        return max(own, key=self._priority_of)  # the first of equals


def is_below_share(tenant: str, shares: Counter[str]) -> bool:
    """The difference must be two or more, so that the preempted tenant cannot preempt in turn."""
    return max(shares.values(), default=0) >= shares[tenant] + 2
