"""Sequences that wait for a slot: tenants take turns, and each one's own come first come first served.

So a tenant with a thousand requests in the queue delays another's first one by one turn, not by a thousand.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator

from segue.engine.request.sequence import Sequence


class WaitingQueue:
    def __init__(self, tenant_of: Callable[[Sequence], str]) -> None:
        self.tenant_of = tenant_of
        self._lines: OrderedDict[str, deque[Sequence]] = OrderedDict()  # whose turn it is: first

    def extend(self, sequences: Iterable[Sequence]) -> None:
        for sequence in sequences:
            self._lines.setdefault(self.tenant_of(sequence), deque()).append(sequence)

    def popleft(self) -> Sequence:
        tenant, line = next(iter(self._lines.items()))
        sequence = line.popleft()
        if line:
            self._lines.move_to_end(tenant)
        else:
            del self._lines[tenant]
        return sequence

    def appendleft(self, sequence: Sequence) -> None:
        """Back to the front of its own line, and it is that line's turn again."""
        tenant = self.tenant_of(sequence)
        self._lines.setdefault(tenant, deque()).appendleft(sequence)
        self._lines.move_to_end(tenant, last=False)

    def extendleft(self, sequences: Iterable[Sequence]) -> None:
        for sequence in sequences:
            self.appendleft(sequence)

    def drop(self, request_id: str) -> None:
        for tenant, line in list(self._lines.items()):
            kept = deque(s for s in line if s.request_id != request_id)
            if kept:
                self._lines[tenant] = kept
            else:
                del self._lines[tenant]

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[Sequence]:
        for line in self._lines.values():
            yield from line
