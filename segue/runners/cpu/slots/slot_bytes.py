"""A slot as bytes: the KV blocks of its tokens, and its state and what was made of its last tokens if it has these.

Blocks are read and written where they are. What a part of a block would tell of other tokens, which were there before,
is left out: the last block is a copy, with zeros in their place.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segue.engine.seam import SlotKind
from segue.runners.cpu.architectures.hparams import Hparams
from segue.runners.cpu.slots.kv import BLOCK
from segue.runners.cpu.slots.slots import Slots
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.attention.kv_formats import KvType, tokens_of


class CpuSlotBytes:
    """Implements seam.SlotBytes."""

    def __init__(
        self,
        slots: Slots,
        hparams: Hparams,
        check_idle: Callable[[], None],
        model: str,
        kernels: str,
    ):
        """`model`, `kernels`: see SlotKind."""
        self._slots = slots
        self._hparams = hparams
        self._check_idle = check_idle
        self._incoming: dict[int, NDArray[np.int64]] = {}  # by slot: how many changes it has
        self._block_bytes = int(slots.kv.block(0).nbytes)
        parts = (slots.kv.kv_type, self._block_bytes, self._beside_bytes)
        self.kind = SlotKind(model, kernels, " ".join(map(str, parts)))

    def num_bytes(self, length: int) -> int:
        return -(-length // BLOCK) * self._block_bytes + self._beside_bytes

    def contents(self, slot: int, length: int) -> Sequence[memoryview]:
        self._check_idle()
        slots, held = self._slots, self._slots.tables.length(slot)
        if not 0 < length <= held or (slots.states is not None and length < held):
            raise ValueError(f"slot {slot} holds {held} tokens, not {length}")
        num_whole, num_more = divmod(length, BLOCK)
        blocks = slots.tables.blocks(slot)
        found: list[NDArray[Any]] = [slots.kv.block(number) for number in blocks[:num_whole]]
        if num_more:
            found.append(self._part(blocks[num_whole], num_more))
        count = np.array([0 if slots.states is None else slots.states.returnable(slot)], np.int64)
        return [_bytes_of(each) for each in (*found, *self._beside(slot, count)) if each.size]

    def receive(self, slot: int, length: int) -> Sequence[memoryview]:
        self._check_idle()
        slots, tables = self._slots, self._slots.tables
        if tables.length(slot) or tables.num_needed(slot, length) * BLOCK > tables.cells_free:
            raise ValueError(f"slot {slot} cannot take {length} tokens")
        slots.kv.append(slot, length)
        count = self._incoming[slot] = np.zeros(1, np.int64)
        found = [slots.kv.block(number) for number in tables.blocks(slot)]
        return [_bytes_of(each) for each in (*found, *self._beside(slot, count)) if each.size]

    def received(self, slot: int) -> None:
        self._check_idle()
        count, states = int(self._incoming.pop(slot)[0]), self._slots.states
        if states is None:
            return
        if not 0 <= count <= min(on.MOST_PENDING, self._slots.tables.length(slot)):
            raise ValueError(f"a state with {count} changes beside it")
        states.restore(slot, count)

    @property
    def _beside_bytes(self) -> int:
        count = np.zeros(1, np.int64)
        return sum(int(each.nbytes) for each in self._beside(0, count))

    def _beside(self, slot: int, count: NDArray[np.int64]) -> Iterator[NDArray[Any]]:
        """What a slot has besides its blocks. `count`: how many changes its state has beside it."""
        if self._slots.states is not None:
            yield count
            yield self._slots.states.row(slot)
        if self._slots.hidden_states is not None:
            yield self._slots.hidden_states.rows(slot)

    def _part(self, block: int, count: int) -> NDArray[np.uint8]:
        """A copy of the block's first `count` tokens, with zeros for those after them."""
        whole = self._slots.kv.block(block).view(np.uint8)
        return np.where(self._tokens < count, whole, np.uint8(0))

    @cached_property
    def _tokens(self) -> NDArray[np.uint8]:
        """Of each byte of a block: the token that it belongs to."""
        return np.concatenate([*_tokens_of_layers(self._hparams, self._slots.kv.kv_type)])


def _tokens_of_layers(hparams: Hparams, kv_type: KvType) -> Iterator[NDArray[np.uint8]]:
    """In the order in which a block has its layers."""
    yield np.empty(0, np.uint8)
    for layer in hparams.by_layer:
        if layer.has_keys:
            ways = (False,) if layer.latent else (True, False)  # keys of latents lie as values
            for way in ways:
                yield np.tile(tokens_of(kv_type, layer.head_size, way), layer.key_heads)


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
