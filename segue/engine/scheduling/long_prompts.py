"""Long prompts beside others: who comes later with a short one does not wait until a long one is read.

While others have prompts to read, the long ones of a tenant together take half of the rows that are left for prompts.
What others leave they get too, so no row is lost, and one long prompt after another is read as before.
"""

from collections.abc import Iterable

from segue.engine.request.sequence import Sequence

_LONG = 2  # whole chunks: one that has more to read is long
_LEAST = 8  # a tenant's long prompts get at least this part of a step's rows


class LongPrompts:
    """The rows and cells of one step that long prompts may take."""

    def __init__(self, chunk_rows: int) -> None:
        self._chunk_rows = chunk_rows
        self._step_rows = chunk_rows
        self._left: dict[str, int] = {}  # by tenant, for all of its long prompts
        self._leaves_rows = False
        self.has_left_rows = False  # a long prompt got fewer rows than there were
        self.num_cells = 0  # which those that start now leave to long prompts that are being read

    def begin_step(self, reading: Iterable[Sequence], step_rows: int) -> None:
        """`reading`: whose prompts are being read. `step_rows`: how many rows of prompts the step takes."""
        self._left.clear()
        self._step_rows = step_rows
        self._leaves_rows, self.has_left_rows = True, False
        pending = [sequence.num_pending for sequence in reading]
        self.num_cells = sum(number for number in pending if self._is_long(number))

    def end(self) -> None:
        """All others have their rows: what is left is for everybody."""
        self._leaves_rows = False

    def limit(self, tenant: str, num_pending: int, num_rows: int) -> int:
        """How many of the rows that are left a prompt may take that has `num_pending` tokens to read."""
        if not self._leaves_rows or not self._is_long(num_pending):
            return num_rows
        half = max(self._step_rows // _LEAST, num_rows // 2)
        allowed = min(num_rows, self._left.setdefault(tenant, half))
        self.has_left_rows = self.has_left_rows or allowed < num_rows
        return allowed

    def read(self, tenant: str, num_pending: int, count: int) -> None:
        """One that had so many to read takes `count` rows."""
        if self._leaves_rows and self._is_long(num_pending):
            self._left[tenant] -= count

    def _is_long(self, num_pending: int) -> bool:
        return num_pending > _LONG * self._chunk_rows
