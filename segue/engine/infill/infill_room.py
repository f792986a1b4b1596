"""Which part of a long document an infill prompt keeps: the part nearest to the cursor.

The prompt is shortened in steps of many tokens, so that it begins at the same token while the user types. A prompt that
began one token later with every keystroke would find no prefix in the prefix cache.
"""

from collections.abc import Sequence
from typing import NamedTuple

_STEP = 64  # tokens
_SUFFIX_SHARE = 4  # at least a fourth of the tokens is for the suffix, the rest for the prefix


class KeptParts(NamedTuple):
    prefix: int  # tokens, at its end
    suffix: int  # tokens, at its beginning
    snippets: int  # whole ones, the last of the list


def split(prefix: int, suffix: int, snippets: Sequence[int], room: int) -> KeptParts:
    """How much of each fits into `room` tokens, given how many tokens each has."""
    if prefix + suffix <= room:
        return KeptParts(prefix, suffix, _num_fitting(snippets, room - prefix - suffix))
    step = max(1, min(_STEP, room // 8))
    kept_suffix = min(suffix, max(room // _SUFFIX_SHARE, room - prefix))
    if kept_suffix < suffix:
        kept_suffix -= kept_suffix % step
    excess = max(0, prefix - (room - kept_suffix))
    return KeptParts(max(0, prefix - -(-excess // step) * step), kept_suffix, 0)


def _num_fitting(sizes: Sequence[int], room: int) -> int:
    count = 0
    for size in reversed(sizes):
        room -= size
        if room < 0:
            break
        count += 1
    return count
