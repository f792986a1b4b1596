"""What `segue serve` prints when it is ready."""

import shlex

from rich.filesize import decimal

from segue import unix_socket
from segue.assembly.runners import threads_used
from segue.config import Settings
from segue.cpus import usable_cpus
from segue.logs import printable
from segue.models import adapter_files, model_defaults, names
from segue.types import ModelInfo


def banner(info: ModelInfo, settings: Settings, address: str) -> str:
    """Lines for people, after the one line that programs wait for."""
    has_keys = bool(settings.api_keys or settings.api_key_file)
    promise = (
        "the same request gives the same bytes, whatever else runs"
        if info.deterministic
        else "not promised by this runner"
    )
    rows = {
        **_places(settings, address),
        "model": f"{info.name} ({info.architecture}, {info.quantization}, {decimal(info.file_bytes)})",
        "runner": info.runner + _threads(info.runner, settings.threads or usable_cpus()),
        **_companions(settings),
        **_defaults(info),
        "memory": f"{_kv(info, settings)}{_states(info)}, contexts up to {_context(info, settings)}",
        "same bytes": promise,
        "keys": "asked for" if has_keys else f"none: {_whoever(settings)} may use it",
    }
    width = max(map(len, rows))
    return "\n".join(f"  {name:{width}}  {printable(words)}" for name, words in rows.items())


def _places(settings: Settings, address: str) -> dict[str, str]:
    """Where the page and the first path are; no browser opens a Unix socket."""
    if (path := unix_socket.path_of(settings.host)) is not None:
        curl = f"curl --unix-socket {shlex.quote(path)} http://localhost/v1/completions"
        return {"completions": curl}
    return {"page": f"{address}/", "completions": f"{address}/v1/completions"}


def _whoever(settings: Settings) -> str:
    if unix_socket.path_of(settings.host) is not None:
        return "whoever may write to this socket"
    return "whoever reaches this address"


def _threads(runner: str, wanted: int) -> str:
    """How many it has, which may be fewer than are wanted."""
    used = threads_used(runner, wanted)
    if not used:
        return ""
    most = f" (its most; not {wanted})" if used < wanted else ""
    return f", {used} thread{'s' if used > 1 else ''}{most}"


def _kv(info: ModelInfo, settings: Settings) -> str:
    """How many tokens it holds, and what they are kept in, where that was chosen."""
    is_chosen = settings.kv_type != "f16" and settings.engine != "vllm"
    return f"{info.kv_tokens:,} tokens of KV{f' in {settings.kv_type}' if is_chosen else ''}"


def _states(info: ModelInfo) -> str:
    """How many states there are and what each takes, if its layers carry some."""
    if not info.num_states:
        return ""
    plural = "s" if info.num_states > 1 else ""
    return f", states of {info.num_states:,} sequence{plural} ({decimal(info.state_bytes)} each)"


def _context(info: ModelInfo, settings: Settings) -> str:
    """The longest context that is served, and the model's own where that is another, with the flag that bounds it."""
    served, own = info.context_length, info.train_context
    if own in (0, served):
        return f"{served:,}"
    if own > served:
        is_memory = settings.kv_memory_mib is not None and served == info.kv_tokens
        flag = "--kv-memory-mib" if is_memory else "--context-length"
        return f"{served:,} of the model's {own:,} ({flag})"
    return f"{served:,}, more than the {own:,} that the model was made for"


def _companions(settings: Settings) -> dict[str, str]:
    """Adapters and draft model, if there are any."""
    adapters = [
        f"{ref.name} ({ref.file}, scale {ref.scale:g}"
        + (")" if ref.is_named else ", for every request)")
        for ref in map(adapter_files.parse, settings.lora)
    ]
    rows = {"adapters": ", ".join(adapters)} if adapters else {}
    if (draft := names.draft_model(settings.draft)) is not None:
        rows["draft model"] = names.parse(draft).served_name
    return rows


def _defaults(info: ModelInfo) -> dict[str, str]:
    """The model's own sampling defaults, if it has any. The root does not keep to them."""
    own = info.defaults
    if own is None:
        return {}
    words = f"{model_defaults.in_words(own)} ({own.source}), for the dialects that read them"
    return {"sampling": words}
