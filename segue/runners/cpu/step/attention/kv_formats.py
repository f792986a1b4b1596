"""How keys and values are kept in the KV cache. Free of kernels, since others need the numbers too.

f16: of a head and a block of 32 tokens, keys lie as [dimension][32] and values, or keys whose first part is the value,
as [32][dimension].

q8_0: a number is a code of 8 bits times the scale of its group, an f16: 32 dimensions of one token, or the 16 that are
left over. A group of all tokens of a block has its 32 scales first, then the codes: of keys [dimension][32], of values
16 dimensions at a time as [32][16].
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from segue.runners.cpu.step.attention.scratch import BLOCK, LANES

KvType = Literal["f16", "q8_0"]

GROUP = 32  # dimensions that share a scale
SCALES_BYTES = 2 * BLOCK  # the scales of a group, of a block's tokens
STRIP_BYTES = BLOCK * LANES  # codes of 16 dimensions
GROUP_BYTES = SCALES_BYTES + GROUP // LANES * STRIP_BYTES


def head_bytes(kv_type: KvType, size: int) -> int:
    """Bytes for the keys, or the values, of one head and 32 tokens."""
    if kv_type == "f16":
        return 2 * BLOCK * size
    return size // LANES * STRIP_BYTES + -(-size // GROUP) * SCALES_BYTES


def tokens_of(kv_type: KvType, size: int, by_dimension: bool) -> NDArray[np.uint8]:
    """Of each of those bytes: the token of the block that it belongs to. `by_dimension`: as keys lie."""
    each = np.arange(BLOCK, dtype=np.uint8)
    if kv_type == "f16":
        return np.tile(each.repeat(2), size) if by_dimension else each.repeat(2 * size)
    parts: list[NDArray[np.uint8]] = []
    for start in range(0, size, GROUP):
        count = min(GROUP, size - start)
        strips = np.tile(each.repeat(LANES), count // LANES)
        parts += [each.repeat(2), np.tile(each, count) if by_dimension else strips]
    return np.concatenate(parts)
