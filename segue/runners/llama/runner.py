"""The llama.cpp runner: slots are sequence ids in one KV cache whose cells forks share."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Literal

import numpy as np

from segue.engine.seam import Capabilities, Draw, Late, Loaded, Logits, Mix, Span, Step, Told
from segue.errors import Incompatible
from segue.models import adapter_files, gguf
from segue.models.context import context_of
from segue.models.gguf.lists import lists_of_loaded
from segue.models.origin import gguf_origin
from segue.runners.llama import c_api
from segue.runners.llama.cell_ledger import CellLedger
from segue.runners.llama.obstacles.quantized_kv import NO_FLASH_ATTENTION
from segue.runners.llama.vocab import LlamaVocab, model_info

__all__ = ["LlamaLoader", "LlamaRunner", "LlamaVocab", "model_info"]

SEQUENCES_WORTH = 4  # full-length sequences that the KV cache holds by default
MEMORY_SHARE = 4  # of the machine's memory, the cache takes at most a fourth
MAX_RECURRENT_SLOTS = 16  # each reserves its whole state, which can be tens of megabytes
MICRO_BATCH = 512  # rows that llama.cpp computes at once; scratch memory grows with it

Precision = Literal["f16", "q8_0", "f32"]
KV_TYPES = {"f16": c_api.TYPE_F16, "q8_0": c_api.TYPE_Q8_0, "f32": c_api.TYPE_F32}
BYTES_OF_32 = {"f16": 64, "q8_0": 34, "f32": 128}  # numbers in the cache
DECODE_FAULTS = {1: "no free KV cells", 2: "aborted", -1: "invalid batch", -2: "out of memory"}


class LlamaRunner:
    """Implements seam.Runner."""

    def __init__(
        self,
        path: str,
        *,
        context_length: int | None = None,
        kv_bytes: int | None = None,
        num_slots: int = 32,
        threads: int,
        max_rows: int = MICRO_BATCH,
        kv_precision: Precision = "f16",
        adapters: Mapping[str, str] | None = None,
    ):
        """`adapters`: files of LoRA adapters by name."""
        self._api = c_api.load()
        self._context = 0
        self._adapters: list[int] = []
        self._model = c_api.open_model(path)
        try:
            self._check_kind(path)
            for file in (adapters or {}).values():
                self._adapters.append(self._open_adapter(file))
            most_slots = MAX_RECURRENT_SLOTS if self._is_stateful else c_api.MAX_SEQUENCES
            num_slots = min(num_slots, most_slots)
            context_length = context_of(context_length, self._train_context)
            params = self._api.llama_context_default_params()
            params.n_ctx = self._num_cells(context_length, kv_bytes, kv_precision)
            params.type_k = params.type_v = KV_TYPES[kv_precision]
            # Flash attention would round f32 to f16 again.
            if kv_precision == "f32" or self._architecture in NO_FLASH_ATTENTION:
                params.flash_attn_type = c_api.FLASH_ATTENTION_OFF
            elif kv_precision == "q8_0":  # values of 8 bits need it
                params.flash_attn_type = c_api.FLASH_ATTENTION_ON
            self._context = self._open_context(params, num_slots, threads, max_rows)
        except BaseException:
            self.close()
            raise
        self._memory = self._api.llama_get_memory(self._context)
        num_cells = int(self._api.llama_n_ctx(self._context))
        vocab = self._api.llama_model_get_vocab(self._model)
        self._capabilities = Capabilities(
            num_slots=num_slots,
            num_cells=num_cells,
            context_length=min(context_length, num_cells),
            max_rows=max_rows,
            vocab_size=self._api.llama_vocab_n_tokens(vocab),
            can_trim=not self._is_stateful,
            adapters=tuple(adapters or ()),
        )
        self._ledger = CellLedger(num_slots, num_cells, self._capabilities.context_length)
        self._rows = BatchRows(max_rows)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def cells_free(self) -> int:
        return self._ledger.cells_free

    def cells_held(self, slots: Iterable[int]) -> int:
        return self._ledger.cells_held(slots)

    def decode(self, spans: Sequence[Span]) -> Logits:
        """One call of llama.cpp's; of spans with several mixes of adapters, one each: it has one mix for all rows."""
        self._check(spans)
        mixes = list(dict.fromkeys(span.adapters for span in spans))
        if len(mixes) < 2:
            return self._decode(spans, mixes[0] if mixes else ())
        width = self._capabilities.vocab_size
        whole: Logits = np.empty((sum(span.num_logits for span in spans), width), np.float32)
        ends = np.cumsum([span.num_logits for span in spans])
        for mix in mixes:
            own = [span for span in spans if span.adapters == mix]
            rows = [
                np.arange(end - span.num_logits, end)
                for span, end in zip(spans, ends, strict=True)
                if span.adapters == mix
            ]
            whole[np.concatenate(rows)] = self._decode(own, mix)
        return whole

    def _decode(self, spans: Sequence[Span], mix: Mix) -> Logits:
        self._adapt(mix)
        width = self._capabilities.vocab_size
        batch, num_logits = self._rows.fill(spans)
        status = self._api.llama_decode(self._context, batch) if batch.n_tokens else 0
        if status:
            reason = DECODE_FAULTS.get(status, f"status {status}")
            raise RuntimeError(f"llama.cpp failed to decode {batch.n_tokens} rows: {reason}")
        for span in spans:
            self._ledger.append(span.slot, len(span.tokens))
        if not num_logits:
            return np.empty((0, width), np.float32)
        address = self._api.llama_get_logits(self._context)
        return np.ctypeslib.as_array(address, (num_logits, width))

    def _adapt(self, mix: Mix) -> None:
        if not self._adapters:
            return
        handles = np.array([self._adapters[number] for number, _ in mix], np.uintp)
        scales = np.array([scale for _, scale in mix], np.float32)
        self._api.llama_set_adapters_lora(
            self._context, handles.ctypes.data, len(mix), scales.ctypes.data
        )

    def draw(self, draws: Sequence[Draw]) -> Sequence[int | None]:
        return [None] * len(draws)

    def begin(self, spans: Sequence[Span], draws: Sequence[Draw]) -> None:
        raise NotImplementedError("llama.cpp has one step at a time: rows_ahead is 0")

    def end(self) -> Step:
        raise NotImplementedError("llama.cpp has one step at a time: rows_ahead is 0")

    def tell(self, late: Late, told: Told | None) -> None:
        raise NotImplementedError("llama.cpp draws no tokens: rows_ahead is 0")

    def fork(self, src: int, dst: int, length: int) -> None:
        held = self._ledger.length(src)
        if self._ledger.length(dst) or not 0 <= length <= held:
            raise ValueError(f"cannot fork {length} of {held} tokens of slot {src} into {dst}")
        if length != held and not self._capabilities.can_trim:
            raise ValueError("a recurrent model forks whole sequences only")
        self._api.llama_memory_seq_cp(self._memory, src, dst, 0, length)
        self._ledger.fork(src, dst, length)

    def trim(self, slot: int, length: int) -> None:
        held = self._ledger.length(slot)
        if not 0 <= length <= held:
            raise ValueError(f"cannot trim slot {slot} from {held} to {length} tokens")
        if length == held:
            return
        if not self._api.llama_memory_seq_rm(self._memory, slot, length, -1):
            raise ValueError(f"this model cannot trim slot {slot} from {held} to {length} tokens")
        self._ledger.trim(slot, length)

    def free(self, slot: int) -> None:
        self.trim(slot, 0)

    def close(self) -> None:
        if self._context:
            self._api.llama_free(self._context)
        if self._model:
            self._api.llama_model_free(self._model)
        self._context = self._model = 0
        self._adapters = []  # they go with the model

    def _open_adapter(self, path: str) -> int:
        adapter = self._api.llama_adapter_lora_init(self._model, os.fsencode(path))
        if not adapter:
            raise Incompatible(f"llama.cpp cannot use the adapter {path}")
        return int(adapter)

    def _check(self, spans: Sequence[Span]) -> None:
        """Raise for spans that would make llama.cpp abort the process or corrupt the ledger."""
        rows = sum(len(span.tokens) for span in spans)
        limits = self._capabilities
        if rows > limits.max_rows or rows > self.cells_free:
            raise RuntimeError(
                f"{rows} rows asked for, but a step takes {limits.max_rows} "
                f"and {self.cells_free} cells are free"
            )
        for span in spans:
            held = self._ledger.length(span.slot)
            if span.past != held:
                raise ValueError(f"slot {span.slot} holds {held} tokens, not {span.past}")
            if held + len(span.tokens) > limits.context_length:
                raise ValueError(f"slot {span.slot} would outgrow {limits.context_length} tokens")

    def _check_kind(self, path: str) -> None:
        kinds = {
            "llama_model_has_encoder": "an encoder-decoder model",
            "llama_model_is_diffusion": "a diffusion model",
        }
        for question, kind in kinds.items():
            if getattr(self._api, question)(self._model):
                raise Incompatible(f"{path} is {kind}; only decoders can complete text.")

    @property
    def _is_stateful(self) -> bool:
        """Whether all or some layers are recurrent: their state cannot be trimmed, unlike KV cells."""
        questions = (self._api.llama_model_is_recurrent, self._api.llama_model_is_hybrid)
        return any(question(self._model) for question in questions)

    @property
    def _architecture(self) -> str | None:
        return c_api.metadata(self._model, "general.architecture")

    @property
    def _train_context(self) -> int:
        return int(self._api.llama_model_n_ctx_train(self._model))

    def _num_cells(self, context_length: int, kv_bytes: int | None, precision: Precision) -> int:
        """KV cells by `kv_bytes`; by default a few full sequences, within a share of the memory."""
        api, model = self._api, self._model
        head_size = int(
            c_api.metadata(model, f"{self._architecture}.attention.key_length")
            or api.llama_model_n_embd(model) // max(1, api.llama_model_n_head(model))
        )
        values = 2 * api.llama_model_n_layer(model) * api.llama_model_n_head_kv(model) * head_size
        cell_bytes: int = max(1, values * BYTES_OF_32[precision] // 32)
        if kv_bytes is not None:
            return max(context_length, kv_bytes // cell_bytes)
        affordable = _memory_bytes() // MEMORY_SHARE // cell_bytes
        return max(context_length, min(SEQUENCES_WORTH * context_length, affordable))

    def _open_context(
        self, params: c_api.ContextParams, num_slots: int, threads: int, max_rows: int
    ) -> int:
        # llama.cpp asserts that a batch can carry one output per sequence.
        params.n_batch = max(max_rows, num_slots)
        params.n_ubatch = min(params.n_batch, MICRO_BATCH)
        params.n_seq_max = num_slots
        params.n_threads = params.n_threads_batch = threads or os.cpu_count() or 1
        params.kv_unified = True  # separate streams would copy on every fork
        context = c_api.open_context(self._model, params)
        if not self._api.llama_get_memory(context):
            self._api.llama_free(context)
            raise Incompatible("This model keeps no KV memory (an embedding model?).")
        return context


class BatchRows:
    """The arrays of a llama_batch, allocated once."""

    def __init__(self, max_rows: int):
        self._tokens = np.zeros(max_rows, np.int32)
        self._positions = np.zeros(max_rows, np.int32)
        self._slots = np.zeros(max_rows, np.int32)
        self._one_each = np.ones(max_rows, np.int32)
        self._wanted = np.zeros(max_rows, np.int8)
        # By row, the address of its list of sequence ids: here one id, in self._slots.
        self._slot_addresses = self._slots.ctypes.data + 4 * np.arange(max_rows, dtype=np.uintp)
        self._batch = c_api.Batch(
            token=self._tokens.ctypes.data,
            pos=self._positions.ctypes.data,
            n_seq_id=self._one_each.ctypes.data,
            seq_id=self._slot_addresses.ctypes.data,
            logits=self._wanted.ctypes.data,
        )

    def fill(self, spans: Sequence[Span]) -> tuple[c_api.Batch, int]:
        """The batch and how many of its rows need logits."""
        start = num_logits = 0
        for slot, tokens, past, wanted, *_ in spans:
            end = start + len(tokens)
            self._tokens[start:end] = tokens
            self._positions[start:end] = np.arange(past, past + len(tokens))
            self._slots[start:end] = slot
            self._wanted[start:end] = 0
            self._wanted[end - wanted : end] = 1
            start, num_logits = end, num_logits + wanted
        self._batch.n_tokens = start
        return self._batch, num_logits


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on Windows
        return 8 << 30


@dataclass(frozen=True)
class LlamaLoader:
    """Implements seam.Loader."""

    path: str
    name: str
    _: KW_ONLY
    context_length: int | None = None
    kv_bytes: int | None = None
    num_slots: int = 32
    threads: int = 0  # 0: one per core
    max_rows: int = MICRO_BATCH
    kv_precision: Precision = "f16"
    adapters: tuple[tuple[str, str], ...] = ()  # names and files

    def __call__(self) -> Loaded:
        base = gguf.header(self.path)  # validates the file: llama.cpp trusts the lengths in it
        for _, file in self.adapters:
            adapter_files.check(file, base)
        vocab = LlamaVocab(self.path)  # first, because it fails sooner
        runner = LlamaRunner(
            self.path,
            context_length=self.context_length,
            kv_bytes=self.kv_bytes,
            num_slots=self.num_slots,
            threads=self.threads,
            max_rows=self.max_rows,
            kv_precision=self.kv_precision,
            adapters=dict(self.adapters),
        )
        origin = gguf_origin(self.path, read=base)
        info = model_info(self.name, "llama", vocab, runner.capabilities, origin=origin)
        return Loaded(runner, vocab, info, lists=partial(lists_of_loaded, self.path, origin))
