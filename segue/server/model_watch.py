"""What becomes of models, for one client that is told of it for as long as it likes."""

import asyncio
import contextlib
from collections import deque

from segue.bounds import MAX_UNREAD_CHANGES
from segue.engine.seam import Models
from segue.types import ModelChange


class ModelWatch:
    """Changes, one by one, from its making on; None after `silent_s` without any (0 or less: never). It ends with the
    server, or where the client does not read: what it missed it finds in the list of models."""

    def __init__(self, models: Models, silent_s: float) -> None:
        self._silent_s = silent_s if silent_s > 0 else None
        self._unread: deque[ModelChange] = deque()
        self._is_over = False
        self._woken = asyncio.Event()
        self._leave = models.listen(self._hear)

    def _hear(self, change: ModelChange | None) -> None:
        if self._is_over:  # what comes after one that was missed would mislead
            return
        if change is None or len(self._unread) >= MAX_UNREAD_CHANGES:
            self._is_over = True
        else:
            self._unread.append(change)
        self._woken.set()

    def __aiter__(self) -> "ModelWatch":
        return self

    async def __anext__(self) -> ModelChange | None:
        if not self._unread and not self._is_over:
            self._woken.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), self._silent_s)
        if self._unread:
            return self._unread.popleft()
        if self._is_over:
            raise StopAsyncIteration
        return None

    async def aclose(self) -> None:
        self._leave()
