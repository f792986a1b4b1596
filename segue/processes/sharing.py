"""Which of several server processes this one is, and where they keep what they share."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Sharing:
    process: int = 0
    num_processes: int = 1
    folder: str = ""  # empty: this is the only process
    started: int | None = None  # when the server was started, in Unix time; None: now

    def path(self, name: str) -> str | None:
        return str(Path(self.folder) / name) if self.folder else None


ALONE = Sharing()
