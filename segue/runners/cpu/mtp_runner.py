"""The CPU runner with the model's MTP layer: drafts are small steps of a program of their own."""

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from segue.engine.seam import Logits, Span
from segue.runners.cpu.frame import Frame
from segue.runners.cpu.runner import CpuRunner
from segue.runners.cpu.step.program.phases import draft_program

MAX_DRAFTING_SLOTS = 8  # slots of a draft


class MtpRunner(CpuRunner):
    """Implements seam.MtpDrafting too."""

    drafts: ClassVar[bool] = True

    def draft_step(self, spans: Sequence[Span]) -> Logits:
        self._check_idle()
        self._check(spans, MAX_DRAFTING_SLOTS)
        if any(len(span.tokens) != 1 for span in spans):
            raise ValueError("a draft goes on from one token of each slot")
        frame = self._draft_frame
        for span in spans:
            self._drafted.setdefault(span.slot, span.past)
        self._team.await_left(frame.board)
        frame.fill(spans)
        if spans:
            self._run(frame, self._threads.choose(len(spans)))
        return frame.logits[: len(spans)]

    def forget_drafts(self) -> None:
        self._check_idle()
        for slot, length in self._drafted.items():
            self._slots.drop_drafts(slot, length)
        self._drafted.clear()

    @cached_property
    def _drafted(self) -> dict[int, int]:
        """Of slots with drafts: how many tokens they held before."""
        return {}

    @cached_property
    def _draft_frame(self) -> Frame:
        """Nothing is drawn there: the caller has the logits."""
        space, slots, most = self._space, self._slots, MAX_DRAFTING_SLOTS
        return Frame(
            space, slots, self._draft_program, most, self._drawer, None, is_for_drafts=True
        )

    def _draft_program(self, logits: int) -> NDArray[np.int64]:
        return draft_program(self._weights, self._places(logits), self._tile_outputs)
