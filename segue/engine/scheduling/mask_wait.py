"""How long a step waits for masks of constraints."""

import time
from collections.abc import Callable

from segue.engine.constraints.guide import Guide


class MaskWait:
    """Bounds the time that one step waits for masks, over all its sequences."""

    def __init__(self, most_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_s = most_s
        self._clock = clock
        self._left_s = 0.0

    def begin_step(self) -> None:
        self._left_s = self._most_s

    def wait(self, guide: Guide) -> bool:
        """Whether the mask is ready, now or within the remaining time."""
        if guide.is_ready:
            return guide.wait(0.0)
        begun = self._clock()
        is_ready = guide.wait(self._left_s)
        self._left_s = max(0.0, self._left_s - (self._clock() - begun))
        return is_ready
