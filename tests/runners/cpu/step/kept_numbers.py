"""What a block of the KV cache holds, by numpy: keys or values of some tokens, in each type of KV."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segue.runners.cpu.step.attention.kv_formats import KvType
from segue.runners.cpu.step.attention.scratch import BLOCK

Block = NDArray[np.uint8]  # of one head: its keys, or its values
Rows = NDArray[Any]  # [tokens][size]
Write = Callable[[Block, slice, Rows], None]  # rows of these tokens of a block
MOST = np.float32(65504)  # the greatest half
GROUP_BYTES = 34 * BLOCK


def _keys_of_halves(block: Block, tokens: slice, rows: Rows) -> None:
    block.view(np.float16).reshape(-1, BLOCK)[:, tokens] = rows.T


def _values_of_halves(block: Block, tokens: slice, rows: Rows) -> None:
    block.view(np.float16).reshape(BLOCK, -1)[tokens] = rows


def coded(rows: Rows) -> list[tuple[NDArray[np.float16], NDArray[np.int8]]]:
    """The scales and codes of each group, in IEEE's operations alone; ties to even."""
    floats = np.where(np.isnan(rows), -MOST, np.clip(rows, -MOST, MOST)).astype(np.float32)
    found = []
    for start in range(0, rows.shape[1], 32):
        group = floats[:, start : start + 32]
        scales = (np.abs(group).max(1, keepdims=True) / np.float32(127)).astype(np.float16)
        wide = scales.astype(np.float32)
        factors = np.divide(np.float32(1), wide, out=np.zeros_like(wide), where=wide != 0)
        codes = np.clip(np.rint(group * factors), -127, 127).astype(np.int8)
        found.append((scales[:, 0], codes))
    return found


def decoded(rows: Rows) -> NDArray[np.float32]:
    """What is left of rows that are kept as codes."""
    parts = [scales.astype(np.float32)[:, None] * codes for scales, codes in coded(rows)]
    return np.concatenate(parts, axis=1)


def _keys_of_codes(block: Block, tokens: slice, rows: Rows) -> None:
    for i, (scales, codes) in enumerate(coded(rows)):
        group = block[GROUP_BYTES * i :][:GROUP_BYTES]
        group[: 2 * BLOCK].view(np.float16)[tokens] = scales
        group[2 * BLOCK :].view(np.int8).reshape(-1, BLOCK)[:, tokens] = codes.T


def _values_of_codes(block: Block, tokens: slice, rows: Rows) -> None:
    for i, (scales, codes) in enumerate(coded(rows)):
        group = block[GROUP_BYTES * i :][:GROUP_BYTES]
        group[: 2 * BLOCK].view(np.float16)[tokens] = scales
        strips = group[2 * BLOCK :].view(np.int8).reshape(-1, BLOCK, 16)
        strips[:, tokens] = codes.reshape(len(rows), -1, 16).swapaxes(0, 1)


WRITE_KEYS: Mapping[KvType, Write] = {"f16": _keys_of_halves, "q8_0": _keys_of_codes}
WRITE_VALUES: Mapping[KvType, Write] = {"f16": _values_of_halves, "q8_0": _values_of_codes}
KEPT: Mapping[KvType, Callable[[Rows], Rows]] = {
    "f16": lambda rows: rows.astype(np.float16),
    "q8_0": decoded,
}
