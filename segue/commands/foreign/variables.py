"""Variables without effect, of other servers or called as ours are: the log of a server that starts says what each is
here."""

from collections.abc import Mapping
from difflib import get_close_matches

from segue.commands.foreign import words
from segue.commands.foreign.flags import FOREIGN
from segue.config import FILE_VARIABLE, TABLE

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
_PREFIX = "SEGUE_"
_VERSION = "--version"  # a variable called so is a deployment's own
# No settings: what `segue bench` reads, and what processes of ours tell each other.
_BETWEEN_US = frozenset({"SEGUE_AGAINST_API_KEY", "SEGUE_PARENT_WATCH"})
_KNOWN = {*_OWN.values(), FILE_VARIABLE, *_BETWEEN_US}
# Kubernetes sets these of its own accord, for each service whose name begins with "segue", and others to an address.
_OF_SERVICES = (
    "SERVICE_HOST",
    *(f"_{net}_{end}" for net in ("TCP", "UDP", "SCTP") for end in ("PROTO", "PORT", "ADDR")),
)
_PORT_OF_SERVICES = "SERVICE_PORT"  # a named one has its name behind it
_ADDRESSES = ("tcp://", "udp://", "sctp://")


def told(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each variable that is set, and looks as if it should have an effect."""
    return [
        f"{name} is set, and has no effect: {answer}"
        for name, value in sorted(environ.items())
        if value and (answer := _answer(name, value))
    ]


def _answer(name: str, value: str) -> str | None:
    if name in _OLLAMA:
        return _OLLAMA[name]
    if name.startswith(_PREFIX):
        return None if value.startswith(_ADDRESSES) else _meant(name)
    if name not in _FLAGS and not name.startswith("LLAMA_ARG_"):
        return None
    flag = _FLAGS.get(name) or _flag(name, "LLAMA_ARG_")
    return f"here it is {_OWN[flag]}" if flag in _OWN else FOREIGN.get(flag, words.UNKNOWN)


def _meant(name: str) -> str | None:
    """Of one that is called as ours are. What is nearer still is refused (config.py)."""
    if name in _KNOWN or name.endswith(_OF_SERVICES) or _PORT_OF_SERVICES in name:
        return None
    if (flag := _flag(name, _PREFIX)) in FOREIGN and flag != _VERSION:
        return FOREIGN[flag]
    known = [each.removeprefix(_PREFIX) for each in _OWN.values()]
    near = [_PREFIX + each for each in get_close_matches(name.removeprefix(_PREFIX), known, 2)]
    return f"did you mean {' or '.join(near)}?" if near else words.UNKNOWN


def _flag(name: str, prefix: str) -> str:
    return "--" + name.removeprefix(prefix).lower().replace("_", "-")
