"""A runner that goes wrong when a prompt tells it to: as a driver, a library or a model may."""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from segue.engine.seam import Loaded, Logits, Span
from segue.runners.fake import FakeLoader, FakeRunner

# Said as a prompt, each makes the step that reads it go wrong.
RAISE, CRASH, KILLED, EXIT = "~raise", "~crash", "~killed", "~exit"
HANG, SPIN = "~hang", "~spin"
NAN, INFINITE, NARROW, SHORT = "~nan", "~infinite", "~narrow", "~short"


class FaultyRunner(FakeRunner):
    def _computed(self, spans: Sequence[Span]) -> Logits:
        """Of a step that is decoded as of one that was begun."""
        said = [bytes(t for t in span.tokens if 0 <= t < 256).decode("latin-1") for span in spans]
        logits = super()._computed(spans)
        for text, span in zip(said, spans, strict=True):
            if "~" in text:
                row = sum(s.num_logits for s in spans[: spans.index(span)])
                logits = _go_wrong(text, logits, row)
        return logits


def _go_wrong(text: str, logits: Logits, row: int) -> Logits:
    if RAISE in text:
        raise RuntimeError("the device was lost")
    if HANG in text:
        time.sleep(3600)
    while SPIN in text:
        pass
    if CRASH in text:
        os.kill(os.getpid(), signal.SIGSEGV)
    if KILLED in text:
        os.kill(os.getpid(), signal.SIGKILL)
    if EXIT in text:
        os._exit(3)
    if NARROW in text:
        return logits[:, :-1]
    if SHORT in text:
        return logits[:-1]
    if NAN in text:
        logits[row, 7] = np.nan
    if INFINITE in text:
        logits[row, 7] = np.inf
    return logits


@dataclass(frozen=True)
class FaultyLoader(FakeLoader):
    def __call__(self) -> Loaded:
        loaded = super().__call__()
        limits = loaded.runner.capabilities
        return loaded._replace(runner=FaultyRunner(limits, self.script, self.end_bias))
