"""The KV cache: blocks of 32 tokens in every layer, and which blocks hold the tokens of which slot."""

import numpy as np
from numpy.typing import NDArray

from segue.errors import Incompatible
from segue.runners.cpu.architectures.hparams import Hparams
from segue.runners.cpu.memory import address, available_bytes, zeros
from segue.runners.cpu.slots.blocks import BlockTables, Copy
from segue.runners.cpu.step.attention.kv_formats import KvType
from segue.runners.cpu.step.program.places import block_bytes, layer_bytes, token_bytes

BLOCK = 32
SEQUENCES_WORTH = 16  # full-length sequences that the KV cache holds by default
MEMORY_SHARE = 4  # by default the KV cache takes at most a fourth of the available memory


class Kv:
    """The KV cache of a model. Pages that were never written take no memory."""

    def __init__(
        self,
        hparams: Hparams,
        context: int,
        kv_bytes: int | None,
        num_slots: int,
        kv_type: KvType,
    ):
        each = BLOCK * token_bytes(hparams.by_layer, kv_type)
        self.num_blocks = _num_blocks(each, context, kv_bytes, num_slots)
        self.kv_type = kv_type
        # A block's layers are contiguous, so that memory use grows with the tokens held.
        shape = (self.num_blocks, each // 2)
        self._blocks: NDArray[np.uint16] = zeros(shape, np.uint16, huge=True)
        self.places = _places(hparams, kv_type, address(self._blocks))
        self.tables = BlockTables(num_slots, self.num_blocks, BLOCK)
        # A copy of the block tables in the layout that compiled code reads.
        self._rows: NDArray[np.int64] = zeros((num_slots, -(-context // BLOCK)), np.int64)
        self._first_row, self._row_bytes = address(self._rows), int(self._rows.strides[0])

    @property
    def stride(self) -> int:
        """Bytes from one block to the next."""
        return int(self._blocks.strides[0])

    def table(self, slot: int) -> int:
        """The address of a slot's block numbers."""
        return self._first_row + slot * self._row_bytes

    def block(self, number: int) -> NDArray[np.uint16]:
        """All that a block holds, in place."""
        block: NDArray[np.uint16] = self._blocks[number]
        return block

    def append(self, slot: int, count: int) -> None:
        if self.tables.extend(slot, count):
            return
        before = len(self.tables.blocks(slot))
        copy = self.tables.append(slot, count)
        if copy is not None:
            self._copy(copy)
            before -= 1
        self._write(slot, before)

    def fork(self, src: int, dst: int, length: int) -> None:
        copy = self.tables.fork(src, dst, length)
        if copy is not None:
            self._copy(copy)
        self._write(dst, 0)

    def _write(self, slot: int, start: int) -> None:
        blocks = self.tables.blocks(slot)
        if start < len(blocks):
            self._rows[slot, start : len(blocks)] = blocks[start:]

    def _copy(self, copy: Copy) -> None:
        self._blocks[copy.dst] = self._blocks[copy.src]


def _places(hparams: Hparams, kv_type: KvType, place: int) -> tuple[tuple[int, int], ...]:
    """The addresses of each layer's keys and values in block 0, which begins at `place`."""
    found: list[tuple[int, int]] = []
    for layer in hparams.by_layer:
        if layer.has_keys:
            found.append((place, place if layer.latent else place + block_bytes(layer, kv_type)))
            place += layer_bytes(layer, kv_type)
        else:
            found.append(found[layer.keys_of] if layer.keys_of >= 0 else (0, 0))
    return tuple(found)


def _num_blocks(each: int, context: int, kv_bytes: int | None, num_slots: int) -> int:
    """How many blocks of `each` bytes to allocate. Without `kv_bytes`, at least one sequence of full length fits."""
    one_sequence = -(-context // BLOCK)
    if not each:  # no layer has attention: what limits sequences is their states
        return min(num_slots, SEQUENCES_WORTH) * one_sequence
    if kv_bytes is None:
        affordable = available_bytes() // MEMORY_SHARE // each
        return max(one_sequence, min(SEQUENCES_WORTH * one_sequence, affordable))
    if kv_bytes < each:
        raise Incompatible(f"a KV memory of {kv_bytes} bytes holds not one block of {BLOCK} tokens")
    return kv_bytes // each
