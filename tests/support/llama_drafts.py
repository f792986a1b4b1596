"""What llama.cpp's own program for a model's MTP layer gives: the functions for that are C++."""

import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from segue.runners.llama import c_api

Floats = NDArray[np.float32]

_FOR_DRAFTS = 1  # LLAMA_CONTEXT_TYPE_MTP
_TELL = "_Z26llama_set_embeddings_nextnP13llama_contextbb"
_TOLD = "_Z26llama_get_embeddings_nextnP13llama_context"


def are_there() -> bool:
    """Not where C++ has other names, or a build exports none."""
    return all(hasattr(c_api.load(), name) for name in (_TELL, _TOLD))


class LlamaDrafts:
    """A model, and a context for each of its two programs."""

    def __init__(self, path: Path, width: int, vocab_size: int):
        api = self._api = c_api.load()
        self._tell, self._told = api[_TELL], api[_TOLD]
        self._tell.restype, self._told.restype = None, ctypes.POINTER(ctypes.c_float)
        self._tell.argtypes = (ctypes.c_void_p, ctypes.c_bool, ctypes.c_bool)
        self._told.argtypes = (ctypes.c_void_p,)
        self._width, self._vocab_size = width, vocab_size
        params = api.llama_model_default_params()
        params.load_mtp = True
        self._model = api.llama_model_load_from_file(str(path).encode(), params)
        assert self._model
        self._whole = self._context(0)
        self._layer = self._context(_FOR_DRAFTS)
        for context in (self._whole, self._layer):
            self._tell(context, True, False)

    def close(self) -> None:
        for context in (self._layer, self._whole):
            self._api.llama_free(context)
        self._api.llama_model_free(self._model)

    def read(self, tokens: Sequence[int]) -> Floats:
        """What the model makes of a text's tokens."""
        return self._decode(self._whole, tokens, 0, None)[1]

    def draft(self, tokens: Sequence[int], past: int, made: Floats) -> tuple[Floats, Floats]:
        """Logits after each token, and what the layer makes of it. `made`: of the token before each."""
        return self._decode(self._layer, tokens, past, made)

    def _context(self, kind: int) -> int:
        params = self._api.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = 256
        params.n_outputs_max = params.n_outputs_max_per_seq = 256
        params.n_seq_max, params.ctx_type = 1, kind
        params.flash_attn_type = c_api.FLASH_ATTENTION_OFF
        params.type_k = params.type_v = c_api.TYPE_F32
        params.n_threads = params.n_threads_batch = 1
        if kind:
            params.ctx_other = self._whole
        return c_api.open_context(self._model, params)

    def _decode(
        self, context: int, tokens: Sequence[int], past: int, made: Floats | None
    ) -> tuple[Floats, Floats]:
        count = len(tokens)
        ids = np.array(tokens, np.int32)
        positions = np.arange(past, past + count, dtype=np.int32)
        ones, slot, wanted = (
            np.ones(count, np.int32),
            np.zeros(1, np.int32),
            np.ones(count, np.int8),
        )
        slots = np.full(count, slot.ctypes.data, np.uintp)
        rows = None if made is None else np.ascontiguousarray(made, np.float32)
        batch = c_api.Batch(
            n_tokens=count,
            token=ids.ctypes.data,
            embd=None if rows is None else rows.ctypes.data,
            pos=positions.ctypes.data,
            n_seq_id=ones.ctypes.data,
            seq_id=slots.ctypes.data,
            logits=wanted.ctypes.data,
        )
        assert self._api.llama_decode(context, batch) == 0
        logits = np.ctypeslib.as_array(
            self._api.llama_get_logits(context), (count, self._vocab_size)
        )
        found = np.ctypeslib.as_array(self._told(context), (count, self._width))
        return logits.copy(), found.copy()
