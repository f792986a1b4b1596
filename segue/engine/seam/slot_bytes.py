"""What the engine asks of a runner whose slots can be written out as bytes, and be filled again with them."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class SlotKind(NamedTuple):
    """What a slot's bytes depend on besides its tokens. Bytes are read back only where all of it is the same."""

    model: str  # the digest of its files
    kernels: str  # the version of what computes it
    layout: str  # what keys, values and states are kept as


class SlotBytes(Protocol):
    """Called while no step is open. The bytes themselves are read, and written, by any thread while steps run."""

    @property
    def kind(self) -> SlotKind: ...

    def num_bytes(self, length: int) -> int:
        """Of a slot that holds so many tokens."""

    def contents(self, slot: int, length: int) -> Sequence[memoryview]:
        """The bytes of its first `length` tokens, as many as it could be trimmed to. They stay as long as the slot."""

    def receive(self, slot: int, length: int) -> Sequence[memoryview]:
        """Let an empty slot have so many tokens, whose cells are free: where their bytes are to be written.

        Until they are, and `received` was called, nothing may be done to the slot but `free`.
        """

    def received(self, slot: int) -> None:
        """All bytes are written. Raises ValueError if they can be those of no slot."""
