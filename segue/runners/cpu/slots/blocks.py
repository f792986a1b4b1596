"""Which blocks of KV cells belong to which slot. Forked slots share blocks. Moves no data itself."""

from collections.abc import Iterable
from typing import NamedTuple


class Copy(NamedTuple):
    """The contents of one block must be copied to another before anything is written."""

    src: int
    dst: int


class BlockTables:
    def __init__(self, num_slots: int, num_blocks: int, block_size: int):
        self._size = block_size
        self._unused = list(range(num_blocks))[::-1]
        self._holders = [0] * num_blocks  # by block: how many slots hold it
        self._tables: list[list[int]] = [[] for _ in range(num_slots)]
        self._lengths = [0] * num_slots

    @property
    def cells_free(self) -> int:
        return len(self._unused) * self._size

    def cells_held(self, slots: Iterable[int]) -> int:
        return len(set().union(*(self._tables[slot] for slot in slots))) * self._size

    def length(self, slot: int) -> int:
        return self._lengths[slot]

    def blocks(self, slot: int) -> list[int]:
        return self._tables[slot]

    def num_needed(self, slot: int, count: int) -> int:
        """Blocks that `append` will take."""
        end = -(-(self._lengths[slot] + count) // self._size)
        return end - len(self._tables[slot]) + self._writes_shared(slot, count)

    def extend(self, slot: int, count: int) -> bool:
        """Let the slot's last block hold one or more further tokens. False if it cannot: then nothing changes."""
        table, end = self._tables[slot], self._lengths[slot] + count
        if end > len(table) * self._size or self._holders[table[-1]] > 1:
            return False
        self._lengths[slot] = end
        return True

    def append(self, slot: int, count: int) -> Copy | None:
        """Make room for `count` more tokens. The caller has made sure that enough blocks are free (`num_needed`)."""
        table = self._tables[slot]
        copy = None
        if self._writes_shared(slot, count):
            copy = Copy(table[-1], self._take())
            self._drop(table.pop())
            table.append(copy.dst)
        self._lengths[slot] += count
        while len(table) * self._size < self._lengths[slot]:
            table.append(self._take())
        return copy

    def fork(self, src: int, dst: int, length: int) -> Copy | None:
        """Let `dst` hold the first tokens of `src`. Full blocks are shared; a partial one is copied: both may grow."""
        num_shared, is_partial = length // self._size, length % self._size > 0
        table = self._tables[dst]
        table[:] = self._tables[src][:num_shared]
        for block in table:
            self._holders[block] += 1
        self._lengths[dst] = length
        if not is_partial:
            return None
        table.append(self._take())
        return Copy(self._tables[src][num_shared], table[-1])

    def trim(self, slot: int, length: int) -> None:
        table = self._tables[slot]
        num_kept = -(-length // self._size)
        for block in table[num_kept:]:
            self._drop(block)
        del table[num_kept:]
        self._lengths[slot] = length

    def _writes_shared(self, slot: int, count: int) -> bool:
        """Whether the next token goes into a block that another slot holds too."""
        is_partial = self._lengths[slot] % self._size > 0
        return count > 0 and is_partial and self._holders[self._tables[slot][-1]] > 1

    def _take(self) -> int:
        block = self._unused.pop()
        self._holders[block] = 1
        return block

    def _drop(self, block: int) -> None:
        self._holders[block] -= 1
        if not self._holders[block]:
            self._unused.append(block)
