"""A fake runner with a brake, so that a test sees all its requests run at once however late they come."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from segue.engine.seam import Loaded, Logits, Span
from segue.runners.fake import FakeLoader, FakeRunner

_STEP_S = 0.1  # while the brake is on


class BrakedRunner(FakeRunner):
    """Its steps take long while the file is there."""

    brake = ""

    def _computed(self, spans: Sequence[Span]) -> Logits:
        if os.path.exists(self.brake):
            time.sleep(_STEP_S)
        return super()._computed(spans)


@dataclass(frozen=True)
class BrakedLoader(FakeLoader):
    brake: str = ""  # a file, see `braked`

    def __call__(self) -> Loaded:
        loaded = super().__call__()
        runner = BrakedRunner(loaded.runner.capabilities, self.script, self.end_bias)
        runner.brake = self.brake
        return loaded._replace(runner=runner)


@contextmanager
def braked(brake: Path) -> Iterator[None]:
    """Runners with this brake are slow in here, and fast afterwards."""
    brake.touch()
    try:
        yield
    finally:
        brake.unlink()
