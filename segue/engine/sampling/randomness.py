"""Counter-based randomness: a number is a pure function of seed, candidate, position and purpose.

There is no state to carry, so batching, preemption and speculation cannot change a draw.
"""

import hashlib
import struct
from typing import Literal, get_args

Purpose = Literal["token", "xtc"]


def uniform(seed: int, candidate: int, position: int, purpose: Purpose = "token") -> float:
    """A number in [0, 1) for one decision of one candidate at one position of its output."""
    key = struct.pack("<QII", seed & 0xFFFF_FFFF_FFFF_FFFF, candidate, position)
    digest = _BEGUN[purpose].copy()
    digest.update(key)
    return (int.from_bytes(digest.digest(), "little") >> 11) * 2.0**-53


# Copying a hash object is faster than making one.
_BEGUN: dict[Purpose, hashlib.blake2b] = {
    purpose: hashlib.blake2b(digest_size=8, person=purpose.encode())
    for purpose in get_args(Purpose)
}
