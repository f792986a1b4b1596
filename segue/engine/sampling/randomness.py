"""Counter-based randomness: a number is a pure function of seed, candidate, position and purpose.

There is no state to carry, so batching, preemption and speculation cannot change a draw.
"""

import hashlib
import struct
from typing import Literal

Purpose = Literal["token", "xtc"]


class Points:
    """The numbers of one candidate for one purpose: each in [0, 1), for one position of its output."""

    def __init__(self, seed: int, candidate: int, purpose: Purpose = "token") -> None:
        # What all positions share is hashed once: copying a hash object is faster than making one.
        self._begun = hashlib.blake2b(digest_size=8, person=purpose.encode())
        self._begun.update(struct.pack("<QI", seed & 0xFFFF_FFFF_FFFF_FFFF, candidate))

    def at(self, position: int) -> float:
        digest = self._begun.copy()
        digest.update(_position(position))
        return (int.from_bytes(digest.digest(), "little") >> 11) * 2.0**-53


_position = struct.Struct("<I").pack
