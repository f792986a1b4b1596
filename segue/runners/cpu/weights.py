"""A model's weights in memory: matrices packed for this processor, vectors as floats, and tables of rotations."""

import mmap
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from segue.errors import Incompatible
from segue.models import gguf
from segue.models.gguf import GgufHeader, Tensor
from segue.runners.cpu.anatomy import Anatomy, anatomy_of, rotations, supports, vector
from segue.runners.cpu.exact_math import cosines_and_sines
from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.products import matrix
from segue.runners.cpu.products.kernels import ADAPTED
from segue.runners.cpu.products.machine_code import Kept, nothing_kept
from segue.runners.cpu.products.matrix import Matrix
from segue.runners.cpu.products.processor import Target

_DESCRIPTOR_WORDS = 16


class Weights:
    """Addresses by name; everything they point to lives as long as this."""

    def __init__(self, path: str | Path, target: Target, threads: int, kept: Kept = nothing_kept):
        header = gguf.header(path)
        if obstacle := supports(header):
            raise Incompatible(f"the CPU runner cannot run {path}: {obstacle}")
        self.anatomy: Anatomy = anatomy_of(header)
        self.header: GgufHeader = header
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            data: NDArray[np.uint8] = np.frombuffer(view, np.uint8)
            tensors = [tensor for tensor in header.tensors if len(tensor.shape) == 2]
            made = matrix.pack(tensors, data, target, threads, kept, partial(_let_go, view))
            self._matrices: dict[str, Matrix] = {each.name: each for each in made}
            self._vectors = {
                tensor.name: vector(tensor, data)
                for tensor in header.tensors
                if len(tensor.shape) == 1
            }
            del data  # the file is not read any more
        self._descriptors = zeros((len(self._matrices), _DESCRIPTOR_WORDS), np.int64)
        self._places = {}
        for i, each in enumerate(self._matrices.values()):
            self._descriptors[i, : len(each.descriptor)] = each.descriptor
        for i, name in enumerate(self._matrices):
            self._places[name] = address(self._descriptors) + i * _DESCRIPTOR_WORDS * 8

    def matrix(self, name: str) -> int:
        """The address of a matrix's descriptor."""
        return self._places[name]

    def adapt(self, place: int, number: int) -> None:
        """Tell the matrix of that address its number among those that adapters change."""
        row = (place - address(self._descriptors)) // (8 * _DESCRIPTOR_WORDS)
        self._descriptors[row, ADAPTED] = number

    @property
    def head(self) -> int:
        """The matrix that gives logits: the embeddings, where the file has no other."""
        name = "output.weight" if "output.weight" in self._places else "token_embd.weight"
        return self._places[name]

    def vector(self, name: str) -> int:
        """The address of a vector, 0 where the file has none of that name."""
        found = self._vectors.get(name)
        return 0 if found is None else address(found)

    def rotations(self, positions: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Cosines and sines, [position][pair]."""
        speeds = rotations(self.header, self._vectors.get("rope_freqs.weight"))
        angles = np.arange(positions, dtype=np.float64)[:, None] * speeds
        cosines, sines = cosines_and_sines(angles)
        return cosines.astype(np.float32), sines.astype(np.float32)


def _let_go(view: mmap.mmap, tensor: Tensor) -> None:
    """The pages of a tensor that was read stay with the system, but do not count as ours any more."""
    if hasattr(mmap, "MADV_DONTNEED"):
        start = tensor.offset // mmap.PAGESIZE * mmap.PAGESIZE
        view.madvise(mmap.MADV_DONTNEED, start, tensor.offset + tensor.num_bytes - start)
