"""The folder of saved slots: how much it may hold, and how much of its disk stays free."""

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from rich.filesize import decimal

from segue.errors import OutOfSpace

_SPARE_BYTES = 256 << 20  # of the disk, for whatever else is on it; of a small one a part
_SPARE_SHARE = 20


@dataclass(frozen=True)
class SlotFolder:
    path: str
    most_bytes: int | None  # of all files in it; None: what the disk has

    def check_room(self, part: Path, target: Path) -> None:
        """Raise OutOfSpace unless there is room for `part`, which is to take the place of `target`. It is in the folder
        already, and as long as it will be: two that are written at once see each other."""
        size = part.stat().st_size
        disk = shutil.disk_usage(self.path)
        spare = min(_SPARE_BYTES, disk.total // _SPARE_SHARE)
        if disk.free < size + spare:
            raise _refused(
                size, f"the disk has {decimal(disk.free)} left, and keeps {decimal(spare)}"
            )
        if self.most_bytes is None:
            return
        others = self._num_bytes(besides={part.name, target.name})
        if others + size > self.most_bytes:
            allowed = decimal(self.most_bytes)
            raise _refused(size, f"of {allowed} (--slot-save-mib) others have {decimal(others)}")

    def _num_bytes(self, besides: set[str]) -> int:
        total = 0
        with os.scandir(self.path) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # it was just replaced
                    if entry.name not in besides and entry.is_file(follow_symlinks=False):
                        total += os.stat(entry.path, follow_symlinks=False).st_size
        return total


def _refused(size: int, why: str) -> OutOfSpace:
    return OutOfSpace(
        f"Unable to save slot: it takes {decimal(size)}, and {why}; "
        "save it under the name of one that may go, or have files removed from the folder"
    )
