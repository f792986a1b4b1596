"""llama.cpp's C API, by ctypes from the one extension module of the xllamacpp wheel.

Struct layouts are those of the `llama.h` of that build, so the version is checked before anything is
called: a shifted field would not raise, it would corrupt memory.
"""

import ctypes
import importlib.metadata
import importlib.util
import logging
import os
from collections.abc import Mapping, Sequence
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int32, c_size_t, c_uint32, c_uint64
from ctypes import c_void_p as pointer
from functools import cache
from pathlib import Path

from segue.errors import Incompatible, ModelUnavailable

PACKAGE = "xllamacpp"
VERSION = "2026.10.11549"

# What the wheel is compiled for, as LLVM names it; the one for ARM runs on every processor of 64 bits.
_INSTRUCTIONS = {"x86_64": frozenset({"avx", "avx2", "bmi2", "f16c", "fma"})}

MAX_SEQUENCES = 256  # LLAMA_MAX_SEQ
NO_VOCAB = 0  # LLAMA_VOCAB_TYPE_NONE
SENTENCEPIECE = 1  # LLAMA_VOCAB_TYPE_SPM
NO_TOKEN = -1  # LLAMA_TOKEN_NULL
ATTR_UNKNOWN = 1 << 0  # LLAMA_TOKEN_ATTR_UNKNOWN
ATTR_CONTROL = 1 << 3  # LLAMA_TOKEN_ATTR_CONTROL
FLASH_ATTENTION_OFF, FLASH_ATTENTION_ON = 0, 1  # LLAMA_FLASH_ATTN_TYPE_*
TYPE_F32, TYPE_F16, TYPE_Q8_0 = 0, 1, 8  # GGML_TYPE_*

log = logging.getLogger("segue.llama")


class ModelParams(ctypes.Structure):
    _fields_ = (
        ("devices", pointer),
        ("tensor_buft_overrides", pointer),
        ("n_gpu_layers", c_int32),
        ("split_mode", c_int32),
        ("load_mode", c_int32),
        ("lazy_mode", c_int32),
        ("main_gpu", c_int32),
        ("tensor_split", pointer),
        ("progress_callback", pointer),
        ("progress_callback_user_data", pointer),
        ("kv_overrides", pointer),
        ("vocab_only", c_bool),
        ("check_tensors", c_bool),
        ("use_extra_bufts", c_bool),
        ("no_host", c_bool),
        ("no_alloc", c_bool),
        ("load_mtp", c_bool),
    )


class ContextParams(ctypes.Structure):
    _fields_ = (
        ("n_ctx", c_uint32),
        ("n_batch", c_uint32),
        ("n_ubatch", c_uint32),
        ("n_seq_max", c_uint32),
        ("n_rs_seq", c_uint32),
        ("n_outputs_max", c_uint32),
        ("n_outputs_max_per_seq", c_uint32),
        ("n_threads", c_int32),
        ("n_threads_batch", c_int32),
        ("ctx_type", c_int32),
        ("rope_scaling_type", c_int32),
        ("pooling_type", c_int32),
        ("attention_type", c_int32),
        ("flash_attn_type", c_int32),
        ("rope_freq_base", c_float),
        ("rope_freq_scale", c_float),
        ("yarn_ext_factor", c_float),
        ("yarn_attn_factor", c_float),
        ("yarn_beta_fast", c_float),
        ("yarn_beta_slow", c_float),
        ("yarn_orig_ctx", c_uint32),
        ("defrag_thold", c_float),
        ("cb_eval", pointer),
        ("cb_eval_user_data", pointer),
        ("type_k", c_int32),
        ("type_v", c_int32),
        ("moe_cache_size", c_size_t),
        ("abort_callback", pointer),
        ("abort_callback_data", pointer),
        ("embeddings", c_bool),
        ("offload_kqv", c_bool),
        ("no_perf", c_bool),
        ("op_offload", c_bool),
        ("swa_full", c_bool),
        ("kv_unified", c_bool),
        ("samplers", pointer),
        ("n_samplers", c_size_t),
        ("ctx_other", pointer),
    )


class Batch(ctypes.Structure):
    _fields_ = (
        ("n_tokens", c_int32),
        ("token", pointer),
        ("embd", pointer),
        ("pos", pointer),
        ("n_seq_id", pointer),
        ("seq_id", pointer),
        ("logits", pointer),
    )


LogCallback = ctypes.CFUNCTYPE(None, c_int32, c_char_p, pointer)

# name → (result, arguments). Models, contexts, vocabularies and memories are opaque pointers.
SIGNATURES: dict[str, tuple[type | None, Sequence[type]]] = {
    "llama_backend_init": (None, ()),
    "llama_log_set": (None, (LogCallback, pointer)),
    "llama_model_default_params": (ModelParams, ()),
    "llama_context_default_params": (ContextParams, ()),
    # model
    "llama_model_load_from_file": (pointer, (c_char_p, ModelParams)),
    "llama_model_free": (None, (pointer,)),
    "llama_model_get_vocab": (pointer, (pointer,)),
    "llama_model_n_ctx_train": (c_int32, (pointer,)),
    "llama_model_n_embd": (c_int32, (pointer,)),
    "llama_model_n_layer": (c_int32, (pointer,)),
    "llama_model_n_head": (c_int32, (pointer,)),
    "llama_model_n_head_kv": (c_int32, (pointer,)),
    "llama_model_n_params": (c_uint64, (pointer,)),
    "llama_model_size": (c_uint64, (pointer,)),
    "llama_model_meta_val_str": (c_int32, (pointer, c_char_p, c_char_p, c_size_t)),
    "llama_model_chat_template": (c_char_p, (pointer, c_char_p)),
    "llama_model_has_encoder": (c_bool, (pointer,)),
    "llama_model_is_recurrent": (c_bool, (pointer,)),
    "llama_model_is_hybrid": (c_bool, (pointer,)),
    "llama_model_is_diffusion": (c_bool, (pointer,)),
    # LoRA adapters
    "llama_adapter_lora_init": (pointer, (pointer, c_char_p)),
    "llama_adapter_lora_free": (None, (pointer,)),
    "llama_set_adapters_lora": (c_int32, (pointer, pointer, c_size_t, pointer)),
    # vocabulary
    "llama_vocab_type": (c_int32, (pointer,)),
    "llama_vocab_n_tokens": (c_int32, (pointer,)),
    "llama_vocab_get_attr": (c_int32, (pointer, c_int32)),
    "llama_vocab_is_eog": (c_bool, (pointer, c_int32)),
    "llama_vocab_bos": (c_int32, (pointer,)),
    "llama_vocab_eos": (c_int32, (pointer,)),
    "llama_vocab_get_add_bos": (c_bool, (pointer,)),
    "llama_vocab_get_add_eos": (c_bool, (pointer,)),
    "llama_vocab_fim_pre": (c_int32, (pointer,)),
    "llama_vocab_fim_suf": (c_int32, (pointer,)),
    "llama_vocab_fim_mid": (c_int32, (pointer,)),
    "llama_vocab_fim_pad": (c_int32, (pointer,)),
    "llama_vocab_fim_rep": (c_int32, (pointer,)),
    "llama_vocab_fim_sep": (c_int32, (pointer,)),
    "llama_tokenize": (c_int32, (pointer, c_char_p, c_int32, pointer, c_int32, c_bool, c_bool)),
    "llama_token_to_piece": (c_int32, (pointer, c_int32, c_char_p, c_int32, c_int32, c_bool)),
    # context
    "llama_init_from_model": (pointer, (pointer, ContextParams)),
    "llama_free": (None, (pointer,)),
    "llama_n_ctx": (c_uint32, (pointer,)),
    "llama_get_memory": (pointer, (pointer,)),
    "llama_decode": (c_int32, (pointer, Batch)),
    "llama_get_logits": (POINTER(c_float), (pointer,)),
    "llama_memory_seq_rm": (c_bool, (pointer, c_int32, c_int32, c_int32)),
    "llama_memory_seq_cp": (None, (pointer, c_int32, c_int32, c_int32, c_int32)),
}

# Defaults of fields spread over both structs: they are read correctly only if the layout is right.
EXPECTED_MODEL_DEFAULTS = {"n_gpu_layers": -1, "vocab_only": False, "use_extra_bufts": True}
EXPECTED_CONTEXT_DEFAULTS = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_outputs_max_per_seq": 1,
    "flash_attn_type": -1,
    "defrag_thold": -1.0,
    "type_k": TYPE_F16,
    "type_v": TYPE_F16,
    "embeddings": False,
    "swa_full": True,
    "kv_unified": False,
    "samplers": None,
    "n_samplers": 0,
    "ctx_other": None,
}


# ggml_log_level → ours. It warns about many files, so its warnings are logged as info.
LOG_LEVELS = {1: logging.DEBUG, 2: logging.DEBUG, 3: logging.INFO, 4: logging.WARNING}
LOG_CONTINUED = 5
# To llama.cpp all cells could be one sequence's; here each is bounded by the context, and the start tells of one that
# is longer than the model's.
_NO_MATTER_HERE = "possible training context overflow"


class _Log:
    """Forwards llama.cpp's messages to logging and keeps the reason of a failed load."""

    def __init__(self) -> None:
        self._level = logging.DEBUG
        self.errors: list[str] = []
        self.callback = LogCallback(self._receive)  # llama.cpp keeps a bare pointer to it

    def _receive(self, level: int, text: bytes | None, _: int | None) -> None:
        line = (text or b"").decode(errors="replace").strip()
        if level != LOG_CONTINUED:
            self._level = LOG_LEVELS.get(level, logging.DEBUG)
        if line.strip("."):
            log.log(logging.DEBUG if _NO_MATTER_HERE in line else self._level, "%s", line)
            if self._level == logging.WARNING:
                self.errors.append(line)

    def reason(self) -> str:
        # The first error is the cause; later ones follow from it.
        return self.errors[0] if self.errors else "no reason given"


_log = _Log()


@cache
def load() -> ctypes.CDLL:
    """The library, checked and ready. Every function of SIGNATURES is an attribute of it."""
    if missing := _missing_instructions():
        raise Incompatible(
            f"{PACKAGE} is compiled for processors with {missing}, which this one does not have"
        )
    # A failed assertion ends the process anyway; it must not start a debugger first.
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
    library = _open(_find_extension())
    if not any(hasattr(library, name) for name in SIGNATURES):
        raise Incompatible(
            f"{PACKAGE} {VERSION} exports none of llama.cpp's functions on this system"
        )
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name, None)
        if function is None:
            raise Incompatible(f"{PACKAGE} {VERSION} does not export {name}: reinstall it.")
        function.restype, function.argtypes = result, arguments
    check_defaults(library.llama_model_default_params(), EXPECTED_MODEL_DEFAULTS)
    check_defaults(library.llama_context_default_params(), EXPECTED_CONTEXT_DEFAULTS)
    library.llama_log_set(_log.callback, None)
    library.llama_backend_init()
    return library


@cache
def quick() -> ctypes.PyDLL:
    """The same library for calls that take less time than to give up the interpreter lock and to take it again."""
    library = load()
    same = ctypes.PyDLL(library._name, handle=library._handle)
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(same, name)
        function.restype, function.argtypes = result, arguments
    return same


def _missing_instructions() -> str:
    """What the wheel's code takes for granted and this processor lacks: the first call would end the process."""
    try:
        from segue.runners.cpu.products import processor
    except ImportError:  # llvmlite, by which it is asked, is not there
        return ""
    needed = _INSTRUCTIONS.get(processor.arch(), frozenset())
    return ", ".join(sorted(needed - processor.instructions())).upper()


def _open(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise Incompatible(
            f"{PACKAGE} cannot be loaded ({error}). It needs OpenMP's library of the system: "
            "apt install libgomp1, dnf install libgomp, apk add libgomp"
        ) from None


def _find_extension() -> Path:
    # Found, not imported: importing the package would load its own server.
    spec = importlib.util.find_spec(PACKAGE)
    advice = f"Install it with: pip install {PACKAGE}=={VERSION}"
    if spec is None or not spec.submodule_search_locations:
        raise Incompatible(f"{PACKAGE} is not installed. {advice}")
    found = importlib.metadata.version(PACKAGE)
    if found != VERSION:
        raise Incompatible(f"{PACKAGE} is {found}, but this build needs {VERSION}. {advice}")
    folder = Path(spec.submodule_search_locations[0])
    for pattern in (f"{PACKAGE}*.so", f"{PACKAGE}*.pyd"):
        for path in folder.glob(pattern):
            return path
    raise Incompatible(f"{PACKAGE} {found} has no extension module in {folder}. {advice}")


def check_defaults(params: ctypes.Structure, expected: Mapping[str, object]) -> None:
    for field, value in expected.items():
        if (found := getattr(params, field)) != value:
            raise Incompatible(
                f"{PACKAGE} {VERSION} has another memory layout than expected "
                f"({field} reads {found!r} instead of {value!r}): reinstall it."
            )


def open_model(path: str, *, vocab_only: bool = False) -> int:
    """A model handle, to be closed with llama_model_free."""
    library = load()
    if not Path(path).is_file():
        raise ModelUnavailable(f"No such file: {path}")
    params = library.llama_model_default_params()
    params.vocab_only = vocab_only
    _log.errors.clear()
    model = library.llama_model_load_from_file(os.fsencode(path), params)
    if model is None:
        raise ModelUnavailable(f"llama.cpp cannot load {path}: {_words(_log.reason())}")
    return int(model)


def _words(reason: str) -> str:
    """What llama.cpp has logged, for whoever named the file."""
    text = reason.rpartition("error loading model: ")[2]
    if text.startswith("unknown model architecture"):
        text += (
            f" (the model may be newer than this llama.cpp, which is that of {PACKAGE} {VERSION})"
        )
    return text


def open_context(model: int, params: ContextParams) -> int:
    """A context handle, to be closed with llama_free before its model is."""
    _log.errors.clear()
    context = load().llama_init_from_model(model, params)
    if context is None:
        raise ModelUnavailable(f"llama.cpp cannot set up a context: {_log.reason()}")
    return int(context)


def metadata(model: int, key: str) -> str | None:
    """A scalar value of the GGUF, as text."""
    library = load()
    length = library.llama_model_meta_val_str(model, key.encode(), None, 0)
    if length < 0:
        return None
    buffer = ctypes.create_string_buffer(length + 1)
    library.llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
    return buffer.value.decode(errors="replace")
