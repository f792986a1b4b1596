"""Variables of other servers: where one is set when this server starts, its log says what it is here."""

from collections.abc import Mapping

from segue.commands.foreign import words
from segue.commands.foreign.flags import FOREIGN
from segue.config import TABLE

# Those of llama.cpp's server that are called otherwise than their flags.
_FLAGS = {
    "LLAMA_API_KEY": "--api-key",
    "LLAMA_ARG_BATCH": "--batch-size",
    "LLAMA_ARG_UBATCH": "--ubatch-size",
    "LLAMA_ARG_N_PARALLEL": "--parallel",
    "LLAMA_ARG_ROPE_SCALING_TYPE": "--rope-scaling",
    "LLAMA_ARG_DIO": "--direct-io",
    "LLAMA_ARG_STATIC_PATH": "--path",
    "LLAMA_ARG_ENDPOINT_METRICS": "--metrics",
    "LLAMA_ARG_ENDPOINT_PROPS": "--props",
    "LLAMA_ARG_ENDPOINT_SLOTS": "--slots",
    "LLAMA_ARG_THINK": "--reasoning-format",
    "LLAMA_ARG_THINK_BUDGET": "--reasoning-budget",
    "LLAMA_ARG_THINK_BUDGET_MESSAGE": "--reasoning-budget-message",
    "LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT": "--checkpoint-min-step",
    "LLAMA_ARG_SPEC_DRAFT_HF_REPO": "--spec-draft-hf",
    "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K": "--spec-draft-type-k",
    "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V": "--spec-draft-type-v",
    "VLLM_API_KEY": "--api-key",
}

# Ollama's, but for those that its clients read too.
_OLLAMA = {
    "OLLAMA_NUM_PARALLEL": words.SLOTS,
    "OLLAMA_MAX_QUEUE": "here it is --max-queue N",
    "OLLAMA_KEEP_ALIVE": "here it is --keep-alive-s N; models stay loaded without it",
    "OLLAMA_MAX_LOADED_MODELS": words.IDLE,
    "OLLAMA_CONTEXT_LENGTH": words.CONTEXT,
    "OLLAMA_KV_CACHE_TYPE": words.KV_TYPE,
    "OLLAMA_FLASH_ATTENTION": words.ONE_KERNEL,
    "OLLAMA_ORIGINS": "here it is --cors-origin ORIGIN",
    "OLLAMA_DEBUG": words.LOUD,
    "OLLAMA_LOAD_TIMEOUT": words.TIMEOUT,
}

_OWN = {row.flag: row.variable for row in TABLE}


def told(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each variable of another server that is set."""
    return [
        f"{name} is set, and has no effect: {answer}"
        for name, value in sorted(environ.items())
        if value and (answer := _answer(name))
    ]


def _answer(name: str) -> str | None:
    if name in _OLLAMA:
        return _OLLAMA[name]
    if name not in _FLAGS and not name.startswith("LLAMA_ARG_"):
        return None
    spelled = name.removeprefix("LLAMA_ARG_").lower().replace("_", "-")
    flag = _FLAGS.get(name, f"--{spelled}")
    return f"here it is {_OWN[flag]}" if flag in _OWN else FOREIGN.get(flag, "it is not known here")
