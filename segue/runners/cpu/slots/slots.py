"""What slots hold: blocks of KV cells and, of models that have such layers, a state."""

from segue.runners.cpu.anatomy.measures import Anatomy
from segue.runners.cpu.slots.blocks import BlockTables
from segue.runners.cpu.slots.kv import BLOCK, Kv
from segue.runners.cpu.slots.states import States


class Slots:
    def __init__(self, anatomy: Anatomy, context: int, kv_bytes: int | None, num_slots: int):
        """`num_slots`: how many are wanted; states may take more memory than is there for so many."""
        self.states = States(anatomy, num_slots) if anatomy.has_states else None
        self.num_slots = num_slots if self.states is None else self.states.num_slots
        self.kv = Kv(anatomy, context, kv_bytes, self.num_slots)

    @property
    def num_cells(self) -> int:
        return self.kv.num_blocks * BLOCK

    @property
    def tables(self) -> BlockTables:
        return self.kv.tables

    def let_go(self) -> None:
        """All slots are empty: give back the memory that states have touched."""
        if self.states is not None:
            self.states.let_go()

    def append(self, slot: int, count: int) -> tuple[int, int] | None:
        """Make room for `count` more tokens. The address of its state and how that stands, if it has one."""
        self.kv.append(slot, count)
        return None if self.states is None else self.states.advance(slot)

    def fork(self, src: int, dst: int, length: int) -> None:
        held = self.tables.length(src)
        if self.states is not None and length:
            if length < held:
                raise ValueError(
                    f"slot {src} can only be forked whole: it has the state of {held} tokens"
                )
            self.states.fork(src, dst)
        self.kv.fork(src, dst, length)

    def trim(self, slot: int, length: int) -> None:
        if self.states is not None:
            self._trim_state(self.states, slot, length)
        self.tables.trim(slot, length)

    def _trim_state(self, states: States, slot: int, length: int) -> None:
        held = self.tables.length(slot)
        if not length:
            states.clear(slot)
        elif not states.can_give_back(slot, held - length):
            raise ValueError(
                f"only the last of the {held} tokens of slot {slot} can go, not {held - length}"
            )
        elif length < held:
            states.give_back(slot)
