"""The OpenVINO runner: slots are tables of KV blocks, and every step is one inference over all their rows.

Its logits do not depend on who else is in a step, nor on how a prompt is cut: inference in f32, KV in f16, and no
step so small that kernels made for few rows take over (openvino_rows). `is_deterministic` tries that at each start.
"""

import math
import mmap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from segue.cpus import usable_cpus
from segue.engine.seam import Capabilities, Logits, Span
from segue.errors import Incompatible
from segue.runners.cpu.blocks import BlockTables, Copy
from segue.runners.openvino_convert import Entry
from segue.runners.openvino_graph import build
from segue.runners.openvino_probe import is_deterministic
from segue.runners.openvino_rows import MIN_ROWS, Rows, SteadyWidth

DEFAULT_CONTEXT = 8192
SEQUENCES_WORTH = 16  # full-length sequences the KV holds, where nothing else is asked for
MEMORY_SHARE = 4  # of the memory that is available, the KV takes at most a fourth
BLOCK = 32  # tokens a KV block; fixed by the CPU plugin
FREE_ROWS = (
    8  # up to here a row more costs about a twentieth of a step: a guess seldom has to be right
)


class OpenVinoRunner:
    """Implements seam.Runner."""

    def __init__(
        self,
        entry: Entry,
        *,
        context_length: int | None = None,
        kv_bytes: int | None = None,
        num_slots: int = 256,
        threads: int = 0,
        max_rows: int = 512,
        fast_kv: bool = False,
    ):
        self._entry = entry  # the graph reads its arrays without holding them
        shape = entry.shape
        self._threads = threads or usable_cpus()
        compiled = _compile(entry, self._threads, fast_kv)
        self._request = compiled.create_infer_request()
        self._ports = {port.get_any_name(): i for i, port in enumerate(compiled.inputs)}
        wanted_context = context_length or min(
            shape.train_context or DEFAULT_CONTEXT, DEFAULT_CONTEXT
        )
        self._kv = KvBlocks(compiled, self._request, wanted_context, kv_bytes)
        self._tables = BlockTables(num_slots, self._kv.num_blocks, BLOCK)
        self._width = SteadyWidth(sum(math.prod(place.shape) for place in entry.places.values()))
        # Lone rows are doubled and two may be padding: see Rows.
        self._logits = _zeros((max_rows + 2, shape.vocab_size), np.dtype(np.float32))
        num_cells = self._kv.num_blocks * BLOCK
        self._capabilities = Capabilities(
            num_slots=num_slots,
            num_cells=num_cells,
            context_length=min(wanted_context, num_cells),
            max_rows=max_rows,
            vocab_size=shape.vocab_size,
            cells_per_block=BLOCK,
            min_rows=MIN_ROWS,
            free_rows=FREE_ROWS,
        )
        self._is_exact = True
        # Without the promise the faster kernel may as well serve.
        self._is_exact = not fast_kv and is_deterministic(self)
        self._capabilities = replace(self._capabilities, deterministic=self._is_exact)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def cells_free(self) -> int:
        return self._tables.cells_free

    def decode(self, spans: Sequence[Span]) -> Logits:
        self._check(spans)
        if not any(span.tokens for span in spans):
            return self._logits[:0]
        rows = Rows(BLOCK, self._kv.num_blocks, self._is_exact)
        for span in spans:
            self._copy(self._tables.append(span.slot, len(span.tokens)))
            rows.add(span, self._tables.blocks(span.slot))
        num_logits = len(rows.wanted)
        rows.pad(self._threads, self._width)
        for name, value in rows.inputs().items():
            self._request.set_input_tensor(self._ports[name], ov.Tensor(value))
        output = ov.Tensor(self._logits[: len(rows.wanted)], shared_memory=True)
        self._request.set_output_tensor(0, output)
        self._request.infer()
        return self._logits[:num_logits]

    def fork(self, src: int, dst: int, length: int) -> None:
        held = self._tables.length(src)
        if self._tables.length(dst) or not 0 <= length <= held:
            raise ValueError(f"cannot fork {length} of {held} tokens of slot {src} into {dst}")
        if length % BLOCK and not self.cells_free:
            raise RuntimeError(f"no block is free to fork slot {src} into {dst}")
        self._copy(self._tables.fork(src, dst, length))

    def trim(self, slot: int, length: int) -> None:
        held = self._tables.length(slot)
        if not 0 <= length <= held:
            raise ValueError(f"cannot trim slot {slot} from {held} to {length} tokens")
        self._tables.trim(slot, length)

    def free(self, slot: int) -> None:
        self._tables.trim(slot, 0)

    def close(self) -> None:
        """Drop the graph and the memory with it."""
        self._request = self._kv = None  # type: ignore[assignment]  # nothing is called after close

    def _copy(self, copy: Copy | None) -> None:
        if copy is not None:
            self._kv.copy(copy)

    def _check(self, spans: Sequence[Span]) -> None:
        """Refuse what would corrupt memory, before anything has changed."""
        limits = self._capabilities
        num_rows = sum(len(span.tokens) for span in spans)
        if num_rows > limits.max_rows:
            raise RuntimeError(f"{num_rows} rows asked for, but a step takes {limits.max_rows}")
        needed = sum(self._tables.num_needed(span.slot, len(span.tokens)) for span in spans)
        if needed * BLOCK > self.cells_free:
            raise RuntimeError(f"{needed * BLOCK} cells needed, but {self.cells_free} are free")
        for span in spans:
            held = self._tables.length(span.slot)
            if span.past != held:
                raise ValueError(f"slot {span.slot} holds {held} tokens, not {span.past}")
            if held + len(span.tokens) > limits.context_length:
                raise ValueError(f"slot {span.slot} would outgrow {limits.context_length} tokens")
            if span.tokens and not 0 <= min(span.tokens) <= max(span.tokens) < limits.vocab_size:
                raise ValueError(f"slot {span.slot} was given a token that the model does not have")


class KvBlocks:
    """The memory of all blocks, layer by layer; untouched pages take none. The last one is scratch."""

    def __init__(
        self,
        compiled: ov.CompiledModel,
        request: ov.InferRequest,
        context: int,
        kv_bytes: int | None,
    ):
        ports = [port for port in compiled.inputs if "_cache." in port.get_any_name()]
        keys = [port for port in ports if port.get_any_name().startswith("key")]
        values = [port for port in ports if port not in keys]
        block_bytes = sum(_block_bytes(port) for port in ports)
        self.num_blocks = _num_blocks(block_bytes, context, kv_bytes)
        self._arrays = [self._attach(request, kind) for kind in (keys, values)]

    def copy(self, copy: Copy) -> None:
        for array in self._arrays:
            array[:, copy.dst] = array[:, copy.src]

    def _attach(self, request: ov.InferRequest, ports: list[Any]) -> NDArray[np.generic]:
        kind, dims = ports[0].get_element_type(), _dims(ports[0])
        array = _zeros((len(ports), self.num_blocks + 1, *dims), np.dtype(kind.to_dtype()))
        for port, layer in zip(ports, array, strict=True):
            request.set_tensor(port.get_any_name(), ov.Tensor(layer, shared_memory=True))
        return array


def _compile(entry: Entry, threads: int, fast_kv: bool) -> ov.CompiledModel:
    options = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "KV_CACHE_PRECISION": "u8" if fast_kv else "f16",
        # What was made for each number of rows is kept, 5000 by default: memory would grow for hours, and
        # steps are no faster for it.
        "CPU_RUNTIME_CACHE_CAPACITY": 32,
        # Rows are rounded to 8 bits in groups of 32 for products with integer weights: twice as fast,
        # at a divergence of about 0.004 that segue/bench/faithfulness.py measures.
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 32,
    }
    try:
        return ov.Core().compile_model(build(entry), "CPU", options)
    except RuntimeError as error:
        raise Incompatible(f"OpenVINO cannot compile this model: {error}") from error


def _num_blocks(block_bytes: int, context: int, kv_bytes: int | None) -> int:
    """One full sequence at the least, and the scratch block beside."""
    one_sequence = -(-context // BLOCK)
    if kv_bytes is None:
        affordable = _available_bytes() // MEMORY_SHARE // block_bytes
        return max(one_sequence, min(SEQUENCES_WORTH * one_sequence, affordable))
    if kv_bytes < 2 * block_bytes:
        raise Incompatible(f"a KV memory of {kv_bytes} bytes holds not one block of {BLOCK} tokens")
    return kv_bytes // block_bytes - 1


def _available_bytes() -> int:
    """What can still be used, here and in the container's limit; 8 GiB where nobody tells."""
    found = []
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            found.append(int(line.split()[1]) << 10)
    limit, used = _lines("/sys/fs/cgroup/memory.max"), _lines("/sys/fs/cgroup/memory.current")
    if limit and used and limit[0].isdigit():
        found.append(max(0, int(limit[0]) - int(used[0])))
    return min(found, default=8 << 30)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _dims(port: Any) -> list[int]:
    """Of one block."""
    shape = port.get_partial_shape()
    return [shape[axis].get_length() for axis in range(1, len(shape))]


def _block_bytes(port: Any) -> int:
    size: int = port.get_element_type().size
    return math.prod(_dims(port)) * size


def _zeros(shape: tuple[int, ...], kind: np.dtype[Any]) -> NDArray[Any]:
    """Page-aligned, and no memory until it is touched."""
    size = math.prod(shape) * kind.itemsize
    return np.frombuffer(mmap.mmap(-1, max(size, 1)), kind, math.prod(shape)).reshape(shape)
