"""What slots hold: blocks of KV cells and, of models that have such layers, a state and what was made of tokens."""

from segue.runners.cpu.architectures.hparams import Hparams
from segue.runners.cpu.slots.blocks import BlockTables
from segue.runners.cpu.slots.hidden_states import HiddenStates
from segue.runners.cpu.slots.kv import BLOCK, Kv
from segue.runners.cpu.slots.states import States
from segue.runners.cpu.step.attention.kv_formats import KvType


class Slots:
    def __init__(
        self,
        hparams: Hparams,
        context: int,
        kv_bytes: int | None,
        num_slots: int,
        kv_type: KvType,
    ):
        """`num_slots`: how many are wanted; states may take more memory than is there for so many."""
        self.states = States(hparams, num_slots) if hparams.has_states else None
        self.num_slots = num_slots if self.states is None else self.states.num_slots
        self.kv = Kv(hparams, context, kv_bytes, self.num_slots, kv_type)
        self.hidden_states = HiddenStates(self.num_slots, hparams.width) if hparams.drafts else None

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

    def append(self, slot: int, count: int, returnable: int) -> tuple[int, int, int] | None:
        """Make room for `count` more tokens. Of its state, if it has one: see States.advance."""
        self.kv.append(slot, count)
        return None if self.states is None else self.states.advance(slot, count, returnable)

    def fork(self, src: int, dst: int, length: int) -> None:
        if self.states is not None and length:
            count = self._checked(self.states, src, length)
            self.states.fork(src, dst)
            self.states.give_back(dst, count)
        if self.hidden_states is not None and length:
            self.hidden_states.fork(src, dst)
        self.kv.fork(src, dst, length)

    def append_drafts(self, slot: int, count: int, _: int) -> None:
        """Make room for tokens that drafts go on from, which no state takes, until `drop_drafts`."""
        self.kv.append(slot, count)

    def drop_drafts(self, slot: int, length: int) -> None:
        """Let the slot hold that many tokens again."""
        self.tables.trim(slot, length)

    def trim(self, slot: int, length: int) -> None:
        if self.states is not None:
            self._trim_state(self.states, slot, length)
        self.tables.trim(slot, length)

    def _trim_state(self, states: States, slot: int, length: int) -> None:
        if length:
            states.give_back(slot, self._checked(states, slot, length))
        else:
            states.clear(slot)

    def _checked(self, states: States, slot: int, length: int) -> int:
        """How many tokens to give back for that length. Raises if they are too many."""
        held, most = self.tables.length(slot), states.returnable(slot)
        if held - length > most:
            raise ValueError(
                f"slot {slot} holds {held} tokens and can give back {most}, not {held - length}"
            )
        return held - length
