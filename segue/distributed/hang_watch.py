"""Notices that one of vLLM's engines hangs: its process is there, but a step of it does not end.

vLLM's engines answer calls between two steps: also while they have nothing to do, while requests wait for memory, and
while they are paused. A step reads one chunk of a prompt at the most. So a call that is not answered is a step that
does not end, or a process that was stopped. Tokens would tell less: none comes while a long prompt is read.
"""

import asyncio
import contextlib
import logging

from segue.distributed.launch import Launched

log = logging.getLogger("segue.vllm")

# Where nobody said how long a step may take. vLLM compiles kernels within steps, also for a shape that first comes
# after hours, which takes minutes; a step of a large model on few cores takes as long.
PATIENCE_S = 1800.0
# By then it has read a prompt and drawn tokens, and most of its kernels are compiled.
WARM_STEPS = 64


class HangWatch:
    """Over one launch of vLLM: one engine, or several (data_parallel_size), which all must answer."""

    def __init__(self, launched: Launched, step_timeout_s: float | None) -> None:
        """`step_timeout_s`: how long a step may take; None: PATIENCE_S, as long as the first steps may in any case."""
        self._launched = launched
        self._step_timeout_s = PATIENCE_S if step_timeout_s is None else step_timeout_s
        self._call: asyncio.Task[None] | None = None
        self._unanswered_s = 0.0

    def look(self, interval_s: float) -> None:
        """Called every `interval_s`: an engine that hangs counts as dead from then on."""
        if self._call is None or self._call.done():
            self._call, self._unanswered_s = asyncio.create_task(self._ask()), 0.0
            return
        # Counted, not timed: if our own event loop was blocked, only one look is missing.
        self._unanswered_s += interval_s
        if self._unanswered_s > self._limit_s and not self._launched.llm.errored:
            log.error("vLLM's engine does not answer for %.1f s: ended", self._unanswered_s)
            self._launched.give_up()

    def stop(self) -> None:
        if self._call is not None:
            self._call.cancel()

    @property
    def _limit_s(self) -> float:
        if self._launched.gauges.steps >= WARM_STEPS:
            return self._step_timeout_s
        return max(self._step_timeout_s, PATIENCE_S)

    async def _ask(self) -> None:
        with contextlib.suppress(Exception):  # an error is an answer, too
            await self._launched.llm.is_paused()
