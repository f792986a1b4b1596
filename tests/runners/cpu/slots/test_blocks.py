from hypothesis import given
from hypothesis import strategies as st

from segue.runners.cpu.slots.blocks import BlockTables, Copy

SLOTS, BLOCKS, SIZE = 4, 12, 4

OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["append", "fork", "trim"]),
        st.integers(0, SLOTS - 1),
        st.integers(0, SLOTS - 1),
        st.integers(0, 11),
    ),
    max_size=60,
)


class Model:
    """What each slot should hold, and what is in memory: a number for every token ever written."""

    def __init__(self) -> None:
        self.tables = BlockTables(SLOTS, BLOCKS, SIZE)
        self.held: list[list[int]] = [[] for _ in range(SLOTS)]
        self.memory = [[-1] * SIZE for _ in range(BLOCKS)]
        self.written = 0

    def append(self, slot: int, count: int) -> None:
        if self.tables.num_needed(slot, count) * SIZE > self.tables.cells_free:
            return
        expected = self.tables.cells_free - self.tables.num_needed(slot, count) * SIZE
        start = len(self.held[slot])
        is_within = count > 0 and self.tables.num_needed(slot, count) == 0
        if count:
            assert self.tables.extend(slot, count) == is_within
        if not is_within:
            self.copy(self.tables.append(slot, count))
        assert self.tables.cells_free == expected
        for position in range(start, start + count):
            block = self.tables.blocks(slot)[position // SIZE]
            self.memory[block][position % SIZE] = self.written
            self.held[slot].append(self.written)
            self.written += 1

    def fork(self, src: int, dst: int, length: int) -> None:
        length = min(length, len(self.held[src]))
        if self.held[dst] or src == dst or not self.tables.cells_free:
            return
        self.copy(self.tables.fork(src, dst, length))
        self.held[dst] = self.held[src][:length]

    def trim(self, slot: int, length: int) -> None:
        length = min(length, len(self.held[slot]))
        self.tables.trim(slot, length)
        del self.held[slot][length:]

    def copy(self, copy: Copy | None) -> None:
        if copy is not None:
            self.memory[copy.dst] = list(self.memory[copy.src])

    def check(self) -> None:
        for slot, held in enumerate(self.held):
            blocks = self.tables.blocks(slot)
            assert self.tables.length(slot) == len(held)
            assert len(blocks) == -(-len(held) // SIZE)
            cells = [cell for block in blocks for cell in self.memory[block]]
            assert cells[: len(held)] == held
        used = {block for slot in range(SLOTS) for block in self.tables.blocks(slot)}
        assert self.tables.cells_free == (BLOCKS - len(used)) * SIZE
        assert self.tables.cells_held(range(SLOTS)) == len(used) * SIZE
        assert self.tables.cells_held([0]) == len(self.tables.blocks(0)) * SIZE


@given(OPERATIONS)
def test_any_history_leaves_each_slot_its_own_text(
    operations: list[tuple[str, int, int, int]],
) -> None:
    """Nobody's write reaches another's tokens, shared blocks are counted once, none is lost."""
    model = Model()
    for name, slot, other, amount in operations:
        if name == "append":
            model.append(slot, amount)
        elif name == "fork":
            model.fork(slot, other, amount)
        else:
            model.trim(slot, amount)
        model.check()
    for slot in range(SLOTS):
        model.trim(slot, 0)
    assert model.tables.cells_free == BLOCKS * SIZE


def test_a_fork_shares_whole_blocks_and_copies_the_partial_one() -> None:
    tables = BlockTables(2, 8, 4)
    tables.append(0, 10)
    copy = tables.fork(0, 1, 9)
    assert tables.blocks(1)[:2] == tables.blocks(0)[:2]
    assert copy == Copy(tables.blocks(0)[2], tables.blocks(1)[2])
    assert tables.cells_free == (8 - 4) * 4


def test_writing_into_a_shared_block_after_a_trim_copies_it_first() -> None:
    tables = BlockTables(2, 8, 4)
    tables.append(0, 8)
    assert tables.fork(0, 1, 8) is None
    tables.trim(1, 6)
    assert tables.num_needed(1, 1) == 1
    copy = tables.append(1, 1)
    assert copy == Copy(tables.blocks(0)[1], tables.blocks(1)[1])
    assert tables.append(1, 1) is None
