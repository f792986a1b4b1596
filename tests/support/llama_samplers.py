"""llama.cpp's own samplers, called through its C API: the independent reference for ours."""

import ctypes
from collections.abc import Sequence
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_bool,
    c_char_p,
    c_float,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_void_p,
)
from functools import cache
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from segue.runners.llama import c_api

TokenArray = NDArray[np.void]
_TOKEN = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class _TokenDataArray(Structure):
    _fields_ = (
        ("data", c_void_p),
        ("size", c_size_t),
        ("selected", c_int64),
        ("sorted", c_bool),
    )


# Arguments of llama_sampler_init_*, by what follows that name.
_KINDS: dict[str, tuple[type, ...]] = {
    "dist": (c_uint32,),
    "greedy": (),
    "top_k": (c_int32,),
    "top_p": (c_float, c_size_t),
    "min_p": (c_float, c_size_t),
    "typical": (c_float, c_size_t),
    "temp": (c_float,),
    "temp_ext": (c_float, c_float, c_float),
    "xtc": (c_float, c_float, c_size_t, c_uint32),
    "top_n_sigma": (c_float,),
    "mirostat": (c_int32, c_uint32, c_float, c_float, c_int32),
    "mirostat_v2": (c_uint32, c_float, c_float),
    "penalties": (c_int32, c_int32, c_float, c_float, c_float),
    "dry": (c_void_p, c_float, c_float, c_int32, c_int32, POINTER(c_char_p), c_size_t),
    "adaptive_p": (c_float, c_float, c_uint32),
    "infill": (c_void_p,),
    "grammar": (c_void_p, c_char_p, c_char_p),
    "grammar_lazy_patterns": (
        *(c_void_p, c_char_p, c_char_p),
        *(POINTER(c_char_p), c_size_t, POINTER(c_int32), c_size_t),
    ),
}


@cache
def _library() -> ctypes.CDLL:
    library = c_api.load()
    for kind, arguments in _KINDS.items():
        make = getattr(library, f"llama_sampler_init_{kind}")
        make.restype, make.argtypes = c_void_p, arguments
    library.llama_sampler_apply.restype = None
    library.llama_sampler_apply.argtypes = (c_void_p, POINTER(_TokenDataArray))
    library.llama_sampler_accept.restype = None
    library.llama_sampler_accept.argtypes = (c_void_p, c_int32)
    library.llama_sampler_free.restype = None
    library.llama_sampler_free.argtypes = (c_void_p,)
    return library


class Row:
    """Candidates as llama.cpp holds them."""

    def __init__(self, logits: NDArray[np.float32]) -> None:
        self._memory: TokenArray = np.zeros(logits.size, _TOKEN)
        self._memory["id"] = np.arange(logits.size)
        self._memory["logit"] = logits
        self.array = _TokenDataArray(self._memory.ctypes.data, logits.size, -1, False)

    @property
    def entries(self) -> TokenArray:
        offset = (self.array.data - self._memory.ctypes.data) // _TOKEN.itemsize
        return self._memory[offset : offset + self.array.size]

    @property
    def selected(self) -> int:
        return int(self.entries["id"][self.array.selected])

    def probabilities(self) -> dict[int, float]:
        """Of the tokens that can still be drawn, by their logits."""
        return shares(self.entries["id"], self.entries["logit"])


def shares(ids: NDArray[np.integer], logits: NDArray[np.float32]) -> dict[int, float]:
    """A plain softmax, without what has no chance at all."""
    weights = np.exp(logits.astype(np.float64) - logits.max())
    pairs = zip(ids.tolist(), (weights / weights.sum()).tolist(), strict=True)
    return {token: share for token, share in pairs if share > 0}


class Reference:
    """One of llama.cpp's samplers. Use as a context: it is freed at the end."""

    def __init__(self, kind: str, *arguments: object) -> None:
        self._pointer = getattr(_library(), f"llama_sampler_init_{kind}")(*arguments)
        if not self._pointer:
            raise ValueError(f"llama.cpp refuses {arguments}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        _library().llama_sampler_free(self._pointer)

    def apply(self, row: Row) -> None:
        _library().llama_sampler_apply(self._pointer, byref(row.array))

    def accept(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            _library().llama_sampler_accept(self._pointer, token)


def dry(
    vocab: int, multiplier: float, base: float, allowed: int, window: int, breakers: Sequence[str]
) -> Reference:
    texts = (c_char_p * len(breakers))(*(text.encode() for text in breakers))
    return Reference("dry", vocab, multiplier, base, allowed, window, texts, len(breakers))
