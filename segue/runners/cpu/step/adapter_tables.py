"""LoRA adapters in memory, as step/adapters.py reads them, and which row of a step has which adapters (its mix)."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from segue.engine.seam import Mix
from segue.models import adapter_files
from segue.models.adapter_files import Pair
from segue.models.gguf import GgufHeader, Tensor
from segue.models.gguf.floats import as_floats
from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.products.matrix import check_sound
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.program.words import float_word
from segue.runners.cpu.weights import Weights

_MOST_TOGETHER = 7  # matrices per phase: RWKV 7 has so many


class Adapters:
    """The adapters of a model, by number. A model without adapters has no phases for them."""

    def __init__(
        self, paths: Mapping[str, str], weights: Weights, board: NDArray[np.int64], max_rows: int
    ):
        headers = [adapter_files.check(path, weights.header) for path in paths.values()]
        found = [adapter_files.pairs(header) for header in headers]
        names = {name for each in found for name in each if weights.has(name)}  # of computed layers
        self._numbers = {
            weights.matrix(name): number for number, name in enumerate(sorted(names), 1)
        }
        for place, number in self._numbers.items():
            weights.adapt(place, number)
        self._kept: list[NDArray[np.float32]] = []
        shape = (len(headers), len(self._numbers) + 1, on.LORA_WORDS)
        self._tables: NDArray[np.int64] = zeros(shape, np.int64)
        for which, (path, header) in enumerate(zip(paths.values(), headers, strict=True)):
            data: NDArray[np.uint8] = np.memmap(path, np.uint8, "r")
            for name in names & found[which].keys():
                entry = self._tables[which, self._numbers[weights.matrix(name)]]
                entry[: on.LORA_COLUMNS + 1] = self._entry(header, found[which][name], data)
        self._ranks = [max(pair.rank for pair in each.values()) for each in found]
        self._take_board(board, max_rows)

    def phase(self, source: int, rows: int, matrices: Sequence[int]) -> list[int] | None:
        """The instruction to run before a product with these matrices; None if no adapter changes any of them."""
        if len(matrices) > _MOST_TOGETHER:
            raise ValueError(f"{len(matrices)} matrices of a phase, more than there is room for")
        numbers = [self._numbers.get(matrix, 0) for matrix in matrices]
        return [on.ADAPT, source, rows, len(numbers), *numbers] if any(numbers) else None

    def words(self, mix: Mix) -> list[int]:
        """The words of a mix: see board.py."""
        parts: list[int] = []
        offset = 0
        for number, scale in mix:
            parts += (address(self._tables[number]), float_word(scale), offset)
            offset += self._ranks[number]
        return [len(mix), *parts]

    @property
    def num_words(self) -> int:
        """The most words that a mix has."""
        return 1 + on.MIX_WORDS * len(self._ranks)

    def _entry(self, header: GgufHeader, pair: Pair, data: NDArray[np.uint8]) -> list[int]:
        a = _floats(pair.a, data)
        b = np.ascontiguousarray(_floats(pair.b, data).T)  # [rank][outputs]
        self._kept += [a, b]
        scale = float_word(adapter_files.strength(header, pair.rank))
        return [address(a), address(b), pair.rank, scale, pair.a.shape[0]]

    def _take_board(self, board: NDArray[np.int64], max_rows: int) -> None:
        stride = sum(self._ranks)
        low: NDArray[np.float32] = zeros((max_rows, _MOST_TOGETHER * stride), np.float32)
        self._kept.append(low)
        board[on.LOW_RANK], board[on.LOW_RANK_STRIDE] = address(low), stride
        board[on.LOW_RANK_ROW] = _MOST_TOGETHER * stride


class AdapterMixes:
    """The mixes of a step's rows, and where its board says so."""

    def __init__(self, adapters: Adapters, board: NDArray[np.int64], max_rows: int):
        self._adapters, self._board = adapters, board
        self._rows: NDArray[np.int64] = zeros(max_rows, np.int64)
        self._wanted: NDArray[np.int64] = zeros(max_rows, np.int64)
        self._mixes: NDArray[np.int64] = zeros((max_rows, adapters.num_words), np.int64)
        board[on.MIXES], board[on.WANTED_MIXES] = address(self._rows), address(self._wanted)

    def tell(self, mixes: Sequence[Mix], rows: Sequence[int], wanted: Sequence[int]) -> None:
        """Write the mixes of a step. `rows`: the index of each row's mix; `wanted`: the rows that want logits."""
        places = {mix: self._write(i, mix) for i, mix in enumerate(dict.fromkeys(mixes)) if mix}
        self._board[on.ADAPTED] = len(places)
        if places:
            of_rows = [places.get(mixes[span], 0) for span in rows]
            self._rows[: len(rows)] = of_rows
            self._wanted[: len(wanted)] = [of_rows[row] for row in wanted]

    def _write(self, place: int, mix: Mix) -> int:
        words = self._adapters.words(mix)
        self._mixes[place, : len(words)] = words
        return address(self._mixes[place])


def _floats(tensor: Tensor, data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """A copy: the file may be written anew while the model is served."""
    raw = data[tensor.offset : tensor.offset + tensor.num_bytes]
    rows = as_floats(tensor.type, raw.reshape(tensor.shape[1], -1))
    check_sound(tensor.name, int(np.count_nonzero(~np.isfinite(rows))))
    return np.array(rows, np.float32, order="C").reshape(tensor.shape[::-1])
