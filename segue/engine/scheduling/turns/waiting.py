"""Sequences that wait for a slot: round robin over tenants; within a tenant the lowest priority first, and of one
priority first come first served.

So a tenant with a thousand waiting requests delays the first request of another by one turn, not by a thousand, and
no priority of a tenant's delays another at all.
"""

from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, KeysView

from segue.engine.request.sequence import Sequence


class _Line:
    """The sequences of one tenant."""

    def __init__(self) -> None:
        self._priorities: list[int] = []  # of those that wait, the one served first first
        self._queues: dict[int, deque[Sequence]] = {}

    def queue(self, priority: int) -> deque[Sequence]:
        """Of this priority. Something is put into it."""
        if priority not in self._queues:
            insort(self._priorities, priority)
            self._queues[priority] = deque()
        return self._queues[priority]

    def popleft(self) -> Sequence:
        queue = self._queues[self._priorities[0]]
        sequence = queue.popleft()
        if not queue:
            del self._queues[self._priorities.pop(0)]
        return sequence

    def __bool__(self) -> bool:
        return bool(self._priorities)

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __iter__(self) -> Iterator[Sequence]:
        for priority in self._priorities:
            yield from self._queues[priority]


class WaitingQueue:
    def __init__(
        self, tenant_of: Callable[[Sequence], str], priority_of: Callable[[Sequence], int]
    ) -> None:
        self.tenant_of = tenant_of
        self.priority_of = priority_of
        self._lines: OrderedDict[str, _Line] = OrderedDict()  # the next tenant is first

    @property
    def tenants(self) -> KeysView[str]:
        """Of all sequences that wait."""
        return self._lines.keys()

    def extend(self, sequences: Iterable[Sequence]) -> None:
        for sequence in sequences:
            self._queue(sequence).append(sequence)

    def popleft(self) -> Sequence:
        tenant, line = next(iter(self._lines.items()))
        sequence = line.popleft()
        if line:
            self._lines.move_to_end(tenant)
        else:
            del self._lines[tenant]
        return sequence

    def appendleft(self, sequence: Sequence) -> None:
        """Put the sequence back in front: its tenant is next, and it is the first of that tenant and its priority."""
        self._queue(sequence).appendleft(sequence)
        self._lines.move_to_end(self.tenant_of(sequence), last=False)

    def extendleft(self, sequences: Iterable[Sequence]) -> None:
        for sequence in sequences:
            self.appendleft(sequence)

    def drop(self, request_id: str) -> None:
        for tenant, line in list(self._lines.items()):
            kept = _Line()
            for sequence in line:
                if sequence.request_id != request_id:
                    kept.queue(self.priority_of(sequence)).append(sequence)
            if kept:
                self._lines[tenant] = kept
            else:
                del self._lines[tenant]

    def _queue(self, sequence: Sequence) -> deque[Sequence]:
        line = self._lines.setdefault(self.tenant_of(sequence), _Line())
        return line.queue(self.priority_of(sequence))

    def __bool__(self) -> bool:
        return bool(self._lines)  # asked for often: the length is a sum over tenants

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[Sequence]:
        for line in self._lines.values():
            yield from line
