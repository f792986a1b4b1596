"""Who is prepared next: small requests on a thread of their own, large ones in turns by key, one of each key at a time.

So a long prompt delays neither the start of short ones nor, by more than one turn, that of another key's.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable

from segue.bounds import SMALL_PREPARATION

NUM_SMALL, NUM_LARGE = 1, 2  # threads

Work = Callable[[], None]


class Lanes:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._small: deque[Work] = deque()
        self._large: OrderedDict[str, deque[Work]] = (
            OrderedDict()
        )  # by key; whose turn it is: first
        self._busy: set[str] = set()  # keys of which a large one is being prepared

    def put(self, tenant: str, size: int, work: Work) -> None:
        """`size`: characters and token ids that have to be looked at."""
        with self._changed:
            if size <= SMALL_PREPARATION:
                self._small.append(work)
            else:
                self._large.setdefault(tenant, deque()).append(work)
            self._changed.notify_all()

    def serve_small(self) -> None:
        """A thread's life; so is the other."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._small))
                work = self._small.popleft()
            work()

    def serve_large(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._next_tenant() is not None)
                tenant = self._next_tenant()
                if tenant is None:
                    continue
                line = self._large[tenant]
                work = line.popleft()
                self._large.move_to_end(tenant)
                if not line:
                    del self._large[tenant]
                self._busy.add(tenant)
            try:
                work()
            finally:
                with self._changed:
                    self._busy.discard(tenant)
                    self._changed.notify_all()

    def _next_tenant(self) -> str | None:
        return next((tenant for tenant in self._large if tenant not in self._busy), None)
