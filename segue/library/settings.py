"""The settings of an LLM: those of `segue serve` that are about its model. The others would have no effect."""

import os
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from segue.errors import InvalidField, SetupError
from segue.library.conversion import plain
from segue.library.options import Options

SETTINGS = (
    "lora",
    "draft",
    "engine",
    "vllm_options",
    "runner",
    "threads",
    "cpu_flavour",
    "context_length",
    "kv_memory_mib",
    "kv_type",
    "num_slots",
    "chunk_rows",
    "scheduling_policy",
    "step_timeout_s",
    "cache_dir",
)
_FIRST = "it is the first argument: LLM(MODEL)"
_VLLM = 'write engine="vllm", vllm_options=["{0}=..."]'
_REQUEST = "it is an option of a request: llm.complete(PROMPT, {0}=...)"

# What it is called by vLLM's class of this name, and by llama-cpp-python's → what would be right here.
FOREIGN = {
    **dict.fromkeys(("models", "model_path"), _FIRST),
    **dict.fromkeys(("max_model_len", "n_ctx"), "did you mean context_length?"),
    "n_threads": "did you mean threads?",
    "n_batch": "did you mean chunk_rows?",
    "max_num_seqs": "did you mean num_slots?",
    **dict.fromkeys(("kv_cache_dtype", "type_k", "type_v"), 'write kv_type="q8_0"'),
    **dict.fromkeys(("tensor_parallel_size", "gpu_memory_utilization", "dtype"), _VLLM),
    **dict.fromkeys(Options.__annotations__, _REQUEST),
}


def checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as flags have them. Raises SetupError for the first that is none of an LLM."""
    for name in settings:
        if name in SETTINGS:
            continue
        near = get_close_matches(name, SETTINGS, 1)
        usual = f"did you mean {near[0]}?" if near else f"an LLM has: {', '.join(SETTINGS)}"
        raise SetupError(f"there is no setting {name!r}; {FOREIGN.get(name, usual).format(name)}")
    try:
        return {name: plain(name, _listed(name, value)) for name, value in settings.items()}
    except InvalidField as error:
        raise SetupError(error.message) from None


def _listed(name: str, value: Any) -> Any:
    """A text may be several with commas between them; a path is one, whatever its name has."""
    return [value] if name == "lora" and isinstance(value, os.PathLike) else value
