"""The Python side of draws: writes records for the kernels, and reads the drawn tokens from them."""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from segue.engine.seam import Cut, CutKind, Draw, Logits
from segue.runners.cpu.draws import chain
from segue.runners.cpu.draws import records as of
from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.products import machine_code
from segue.runners.cpu.products.machine_code import Kept, nothing_kept
from segue.runners.cpu.products.processor import Target
from segue.runners.cpu.step import board as on

_KINDS: dict[CutKind, int] = {
    "scale": of.SCALE,
    "top_k": of.TOP_K,
    "top_p": of.TOP_P,
    "min_p": of.MIN_P,
}
_ROWS_A_THREAD = 4  # for fewer rows, waking another thread costs more than it saves
_RECORD_BYTES = 8 * of.RECORD_WORDS
_HEAD = struct.Struct("=qd")
_CUT = struct.Struct("=qdq")
_COUNT = 3  # index of the instruction's word with the number of draws
_LARGEST = 1 << 31

Run = Callable[[NDArray[np.int64], int], None]  # (a program, threads)


class Drawer:
    """Draws from the rows of one array of logits, in a team of threads."""

    def __init__(
        self, logits: Logits, threads: int, run: Run, target: Target, kept: Kept = nothing_kept
    ) -> None:
        self._num_rows, vocab_size = logits.shape
        self._threads, self._run = threads, run
        part = of.part_bytes(vocab_size)
        self._scratch: NDArray[np.uint8] = zeros(threads * of.NUM_PARTS * part, np.uint8)
        self._records: NDArray[np.int64] = zeros((self._num_rows, of.RECORD_WORDS), np.int64)
        self._bytes = self._records.data.cast("B")
        self._tokens = self._records[:, of.TOKEN]
        words = [on.DRAW, _code(target, kept), address(self._records), 0]
        words += [address(logits), vocab_size, address(self._scratch), part]
        self._program: NDArray[np.int64] = zeros((1, on.INSTRUCTION_WORDS), np.int64)
        self._program[0, : len(words)] = words

    def draw(self, draws: Sequence[Draw]) -> list[int | None]:
        """The token of each draw; None if the sampler must draw it."""
        if not draws:
            return []
        for number, (row, point, cuts, _) in enumerate(draws):
            if not 0 <= row < self._num_rows:
                raise ValueError(f"there is no row {row} of logits")
            place = number * _RECORD_BYTES
            _HEAD.pack_into(self._bytes, place, row, point)
            said = _encoded(cuts)
            place += _HEAD.size
            self._bytes[place : place + len(said)] = said
        self._program[0, _COUNT] = len(draws)
        self._run(self._program, min(self._threads, -(-len(draws) // _ROWS_A_THREAD)))
        return [token if token >= 0 else None for token in self._tokens[: len(draws)].tolist()]


def _code(target: Target, kept: Kept) -> int:
    return machine_code.load_module("draws", chain.module, [chain.NAME], target, kept)[chain.NAME]


@lru_cache(1024)
def _encoded(cuts: tuple[Cut, ...]) -> bytes:
    """The bytes of a record after its row and point: the number of cuts, then the cuts."""
    if len(cuts) > of.MAX_CUTS:
        raise ValueError(f"{len(cuts)} cuts, but a draw takes {of.MAX_CUTS}")
    parts = [_CUT.pack(_KINDS[kind], value, min(count, _LARGEST)) for kind, value, count in cuts]
    return struct.pack("=q", len(cuts)) + b"".join(parts)
