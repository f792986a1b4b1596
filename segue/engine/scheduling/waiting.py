"""Sequences that wait for a slot: round robin over tenants, first come first served within a tenant.

So a tenant with a thousand waiting requests delays the first request of another by one turn, not by a thousand.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, KeysView

from segue.engine.request.sequence import Sequence


class WaitingQueue:
    def __init__(self, tenant_of: Callable[[Sequence], str]) -> None:
        self.tenant_of = tenant_of
        self._queues: OrderedDict[str, deque[Sequence]] = OrderedDict()  # the next tenant is first

    @property
    def tenants(self) -> KeysView[str]:
        """Of all sequences that wait."""
        return self._queues.keys()

    def extend(self, sequences: Iterable[Sequence]) -> None:
        for sequence in sequences:
            self._queues.setdefault(self.tenant_of(sequence), deque()).append(sequence)

    def popleft(self) -> Sequence:
        tenant, queue = next(iter(self._queues.items()))
        sequence = queue.popleft()
        if queue:
            self._queues.move_to_end(tenant)
        else:
            del self._queues[tenant]
        return sequence

    def appendleft(self, sequence: Sequence) -> None:
        """Put the sequence back in front: its tenant is next, and it is the first of that tenant."""
        tenant = self.tenant_of(sequence)
        self._queues.setdefault(tenant, deque()).appendleft(sequence)
        self._queues.move_to_end(tenant, last=False)

    def extendleft(self, sequences: Iterable[Sequence]) -> None:
        for sequence in sequences:
            self.appendleft(sequence)

    def drop(self, request_id: str) -> None:
        for tenant, queue in list(self._queues.items()):
            kept = deque(s for s in queue if s.request_id != request_id)
            if kept:
                self._queues[tenant] = kept
            else:
                del self._queues[tenant]

    def __bool__(self) -> bool:
        return bool(self._queues)  # asked for often: the length is a sum over tenants

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __iter__(self) -> Iterator[Sequence]:
        for queue in self._queues.values():
            yield from queue
