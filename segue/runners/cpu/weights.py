"""A model's weights in memory: matrices packed for this processor, vectors as floats, and RoPE tables."""

import math
import mmap
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segue.errors import Incompatible, ModelUnavailable
from segue.models import gguf
from segue.models.gguf import GgufHeader, Tensor
from segue.runners.cpu.architectures.hparams import Hparams, hparams_of
from segue.runners.cpu.architectures.parts.alibi import slopes
from segue.runners.cpu.architectures.parts.xielu import shapes
from segue.runners.cpu.architectures.positions import rotations, temperatures
from segue.runners.cpu.architectures.support import drafts_obstacle, supports
from segue.runners.cpu.architectures.tensor_scales import factors, scale_shapes
from segue.runners.cpu.architectures.tensors import (
    CONVOLUTIONS,
    computed,
    expert_name,
    is_vector,
    matrices,
    prepare_vectors,
    vector,
)
from segue.runners.cpu.exact_math import cosines_and_sines
from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.older_files.joined import parted, turned_keys
from segue.runners.cpu.older_files.regrouped import regrouped, regrouped_rows
from segue.runners.cpu.products import matrix
from segue.runners.cpu.products.formats import FLOATS
from segue.runners.cpu.products.kernels import ADAPTED
from segue.runners.cpu.products.machine_code import Kept, nothing_kept
from segue.runners.cpu.products.matrix import Matrix
from segue.runners.cpu.products.processor import Target
from segue.runners.cpu.step.attention.scratch import BITS_PER_NAT

_DESCRIPTOR_WORDS = 16
_MOST_TURNED = 2.0**40  # by the last position: beyond, what is left of a turn is not a number

Floats = NDArray[np.float32]


class RopeTables(NamedTuple):
    """RoPE tables, each [position][pair], and temperatures."""

    cosines: Floats
    sines: Floats
    windowed_cosines: Floats  # for layers with a window
    windowed_sines: Floats
    temperatures: Floats  # factors of queries by position


class Weights:
    """Addresses by name. The memory that they point to lives as long as this object."""

    def __init__(
        self,
        path: str | Path,
        target: Target,
        threads: int,
        kept: Kept = nothing_kept,
        drafts: bool = False,
    ):
        """`drafts`: those of its MTP layer too."""
        header = gguf.header(path)
        if obstacle := supports(header):
            raise Incompatible(f"the CPU runner cannot run {path}: {obstacle}")
        if drafts and (obstacle := drafts_obstacle(header)):
            raise Incompatible(f"{path} cannot draft for itself: {obstacle}")
        self.hparams: Hparams = hparams_of(header, drafts)
        self.header: GgufHeader = header
        views = [*map(_mapped, header.files)]
        data: list[NDArray[np.uint8]] = [np.frombuffer(view, np.uint8) for view in views]
        tensors = computed(header.tensors, self.hparams)
        pieces, let_go = [*matrices(tensors, self.hparams)], partial(_let_go, views)
        pieces += parted(tensors, self.hparams, len(data))
        data.append(turned_keys(tensors, self.hparams, data))
        pieces += regrouped(tensors, self.hparams, len(data))
        data.append(regrouped_rows(tensors, self.hparams, data))
        self._vectors = {
            tensor.name: vector(tensor, data[tensor.file])
            for tensor in tensors
            if is_vector(tensor.name)
        }
        scales = factors(tensors, self.hparams, self._vectors)
        made = matrix.pack(pieces, data, target, threads, kept, let_go, factors=scales)
        self._matrices: dict[str, Matrix] = {each.name: each for each in made}
        for name in scale_shapes(tensors, self.hparams):  # they are in the matrices
            self._vectors.pop(name, None)
        self._check_vectors()
        for name in [name for name in self._vectors if name.endswith(CONVOLUTIONS)]:
            taps = next(tensor.shape[0] for tensor in tensors if tensor.name == name)
            self._vectors[name] = self._vectors[name].reshape(-1, taps).T.copy()  # a row per tap
        for i, layer in enumerate(self.hparams.by_layer):
            if layer.recurrence is not None:
                prepare_vectors(self._vectors, f"blk.{i}.", layer.recurrence)
            if self.hparams.family.head_norms == "gains":
                name = f"blk.{i}.attn_q_norm.weight"
                self._vectors[name] = np.repeat(self._vectors[name], layer.head_size)
        # Gemma 4 divides what its router takes by the root of the width.
        for name in [name for name in self._vectors if name.endswith("gate_inp.scale")]:
            self._vectors[name] *= np.float32(1 / math.sqrt(self.hparams.width))
        del data  # the files are not read any more
        # Not in a `with`: closing what an error still looks at would hide that error.
        for view in views:
            view.close()
        self._tables: list[NDArray[np.int64]] = []
        self._descriptors = zeros((len(self._matrices), _DESCRIPTOR_WORDS), np.int64)
        self._places = {}
        for i, each in enumerate(self._matrices.values()):
            self._descriptors[i, : len(each.descriptor)] = each.descriptor
        for i, name in enumerate(self._matrices):
            self._places[name] = address(self._descriptors) + i * _DESCRIPTOR_WORDS * 8

    def _check_vectors(self) -> None:
        """Raise for numbers that are none, and for states without end."""
        for name, values in self._vectors.items():
            if name.startswith("rope_"):
                continue  # see _turns
            sound = np.isfinite(values)
            if name.endswith("sinks.weight"):
                sound |= np.isneginf(values)  # takes nothing of the softmax
            matrix.check_sound(name, int(np.count_nonzero(~sound)))
            if name.endswith("ssm_a") and np.max(values) > 0 and not self.hparams.fades_least:
                raise ModelUnavailable(f"by the tensor {name} states grow without end")

    def matrix(self, name: str) -> int:
        """The address of a matrix's descriptor."""
        return self._places[name]

    def adapt(self, place: int, number: int) -> None:
        """Write the matrix's number in the tables of LoRA adapters to its descriptor at `place`."""
        row = (place - address(self._descriptors)) // (8 * _DESCRIPTOR_WORDS)
        self._descriptors[row, ADAPTED] = number

    def each(self, name: str, count: int) -> int:
        """The address of a table with the addresses of the descriptors of all experts, or heads, of a tensor."""
        table: NDArray[np.int64] = zeros(count, np.int64)
        table[:] = [self._places[expert_name(name, i)] for i in range(count)]
        self._tables.append(table)
        return address(table)

    @property
    def has_float_experts(self) -> bool:
        """Whether some experts read their input as floats."""
        return any("_exps" in m.name and m.type in FLOATS for m in self._matrices.values())

    @property
    def head(self) -> int:
        """The matrix that computes logits: the embedding matrix, if the file has no other."""
        name = "output.weight" if "output.weight" in self._places else "token_embd.weight"
        return self._places[name]

    def has(self, name: str) -> bool:
        return name in self._places or name in self._vectors

    def vector(self, name: str, start: int = 0) -> int:
        """The address of item `start` of a vector; 0 if the file has no vector of that name."""
        found = self._vectors.get(name)
        return 0 if found is None else address(found) + 4 * start

    def value(self, name: str) -> float:
        """The first item of a vector of the file."""
        return float(self._vectors[name][0])

    def ones(self, count: int) -> int:
        """The address of that many ones: for norms without weights."""
        name = f"ones/{count}"
        self._vectors.setdefault(name, np.ones(count, np.float32))
        return address(self._vectors[name])

    def with_bias(self, name: str, size: int) -> int:
        """The address of a norm's weights of each head, which its bias follows, 0 where the file has none."""
        whole = self._vectors[f"{name}.weight"].reshape(-1, size)
        bias = self._vectors.get(f"{name}.bias", np.zeros_like(whole)).reshape(-1, size)
        self._vectors.setdefault(f"{name}/both", np.concatenate([whole, bias], axis=1))
        return address(self._vectors[f"{name}/both"])

    def unsaid(self) -> int:
        """The address of what is added to logits so that some tokens are never drawn; 0 if there are none."""
        first, end = self.hparams.family.unsaid
        if not end:
            return 0
        bias = np.zeros(self.hparams.vocab_size, np.float32)
        bias[first:end] = np.finfo(np.float32).min
        self._vectors.setdefault("unsaid", bias)
        return address(self._vectors["unsaid"])

    def number(self, value: float) -> int:
        """The address of a number that the file does not have."""
        name = f"number/{value}"
        self._vectors.setdefault(name, np.full(1, value, np.float32))
        return address(self._vectors[name])

    def slopes(self, heads: int) -> int:
        """The address of ALiBi's slopes for so many heads, by which scores fall as exponents of 2; 0 without ALiBi."""
        name, most = f"slopes/{heads}", self.hparams.max_bias
        if most and name not in self._vectors:
            self._vectors[name] = (slopes(most, heads) * BITS_PER_NAT).astype(np.float32)
        return self.vector(name)

    def xielu(self, layer: int) -> int:
        """The address of the shape of a layer's activation."""
        if "xielu" not in self._vectors:
            self._vectors["xielu"] = shapes(self.header)
        return self.vector("xielu", 4 * layer)

    def rotations(self, positions: int) -> RopeTables:
        """RoPE tables for layers that see all tokens, and for those with a window; temperatures."""
        plain, windowed = self._turns(positions, False), self._turns(positions, True)
        return RopeTables(*plain, *windowed, temperatures(self.header, positions))

    def _turns(self, positions: int, is_windowed: bool) -> tuple[Floats, Floats]:
        if is_windowed and not self.hparams.has_windows:
            return np.empty(0, np.float32), np.empty(0, np.float32)
        speeds, magnitude = rotations(self.header, self._vectors, is_windowed)
        if not np.max(np.abs(speeds), initial=0.0) * positions <= _MOST_TURNED:
            raise Incompatible("the file's settings or factors of rope turn positions without end")
        angles = np.arange(positions, dtype=np.float64)[:, None] * speeds
        cosines, sines = cosines_and_sines(angles)
        return (
            (cosines * magnitude).astype(np.float32),
            (sines * magnitude).astype(np.float32),
        )


def _mapped(path: Path) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _let_go(views: Sequence[mmap.mmap], tensor: Tensor) -> None:
    """Unmap the pages of a tensor that was read: they stay in the page cache, but no longer count as our memory."""
    if hasattr(mmap, "MADV_DONTNEED") and tensor.file < len(views):
        start = tensor.offset // mmap.PAGESIZE * mmap.PAGESIZE
        views[tensor.file].madvise(
            mmap.MADV_DONTNEED, start, tensor.offset + tensor.num_bytes - start
        )
