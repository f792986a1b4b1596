"""A fake runner whose cells come in blocks, as the kernels have them: one that counts single cells runs out of them
where a block has room for more.
"""

from collections.abc import Iterable

from segue.engine.seam import Capabilities, Span
from segue.runners.cpu.slots.blocks import BlockTables
from tests.engine.scheduling.ahead_runner import AheadRunner


class BlockRunner(AheadRunner):
    def __init__(
        self, limits: Capabilities, skips: int, end_bias: float, script: bytes | None
    ) -> None:
        super().__init__(limits, skips, end_bias, script)
        size = limits.cells_per_block
        self._tables = BlockTables(limits.num_slots, limits.num_cells // size, size)

    @property
    def cells_free(self) -> int:
        return self._tables.cells_free

    def cells_held(self, slots: Iterable[int]) -> int:
        return self._tables.cells_held(slots)

    def fork(self, src: int, dst: int, length: int) -> None:
        super().fork(src, dst, length)
        size = self.capabilities.cells_per_block
        self._check_room(1 if length % size else 0)
        self._tables.fork(src, dst, length)

    def trim(self, slot: int, length: int) -> None:
        super().trim(slot, length)
        self._tables.trim(slot, length)

    def _take_cells(self, span: Span) -> None:
        super()._take_cells(span)
        count = len(span.tokens)
        self._check_room(self._tables.num_needed(span.slot, count))
        self._tables.append(span.slot, count)

    def _check_room(self, num_blocks: int) -> None:
        if num_blocks * self.capabilities.cells_per_block > self.cells_free:
            raise RuntimeError("fake runner: out of blocks")
