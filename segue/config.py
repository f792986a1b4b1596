"""Frozen settings: defaults < file (TOML) < environment (SEGUE_*) < flags, merged once by load().

The fields of Settings are the only list: flags, variables, file keys and help texts follow from it.
"""

import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from segue.errors import SetupError
from segue.setting import Setting, as_toml, check_host, table_of
from segue.setting import said as _said

FILE_VARIABLE = "SEGUE_CONFIG"

Seconds = Annotated[float, Meta(ge=0, le=10**9)]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
CountOrNone = Annotated[int, Meta(ge=0, le=2**31 - 1)]


def user_cache_dir(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Where this system keeps a user's caches, and Segue's folder there."""
    variable = "LOCALAPPDATA" if platform == "win32" else "XDG_CACHE_HOME"
    given = Path(environ.get(variable, ""))
    if given.is_absolute() and platform != "darwin":
        return given / "segue"
    try:
        home = Path.home()
    except RuntimeError:
        raise SetupError("there is no home folder to keep models in: set SEGUE_CACHE") from None
    inside = {"darwin": "Library/Caches", "win32": "AppData/Local"}
    return home / inside.get(platform, ".cache") / "segue"


_MODELS_HELP = (
    "models to serve: PATH.gguf, OWNER/REPO[:QUANT], hf:OWNER/REPO/FILE.gguf, or NAME= before one of "
    "these; none: the embedded one"
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    models: tuple[str, ...] = field(default=(), metadata=_said(_MODELS_HELP, flag=""))
    aliases: tuple[str, ...] = field(
        default=(),
        metadata=_said(
            "another name for the first model, or NAME=SERVED_NAME", "--alias", has_commas=True
        ),
    )
    lora: tuple[str, ...] = field(
        default=(),
        metadata=_said(
            "a LoRA adapter for the first model, [NAME=]FILE.gguf[@SCALE]; with a NAME, requests choose it as "
            "their model; without one, it applies to all",
            has_commas=True,
        ),
    )
    draft: str | None = field(
        default=None,
        metadata=_said(
            "a small draft model with the first model's vocabulary; auto: the model's own MTP layer, if its file "
            "has one; none: neither. The text itself is drafted from in any case"
        ),
    )
    cache_dir: Path = field(
        default_factory=user_cache_dir,
        metadata=_said(
            "folder for the embedded model and compiled kernels; by default segue in the user's cache folder "
            "(~/.cache on Linux). Hugging Face models are kept in HF_HOME",
            variable="SEGUE_CACHE",
        ),
    )
    context_length: Count | None = field(
        default=None,
        metadata=_said(
            "tokens that a sequence may have; auto: the model's own context, at most 8192 (on vLLM all of it)"
        ),
    )
    context_shift: bool = field(
        default=False,
        metadata=_said(
            "let answers go on past a full context by default, in llama.cpp's dialect and at the root"
        ),
    )
    kv_memory_mib: Count | None = field(
        default=None,
        metadata=_said(
            "memory for the KV cache; auto: for 16 sequences of full length (on llama.cpp 4), at most a fourth of RAM"
        ),
    )
    kv_type: Literal["f16", "q8_0"] = field(
        default="f16",
        metadata=_said(
            "number type of the KV cache; q8_0: 8 bits, with a scale for each 32 numbers; it holds 1.9 times the tokens"
        ),
    )
    num_slots: Annotated[int, Meta(ge=1, le=256)] = field(
        default=64, metadata=_said("most sequences in the KV cache, cached prefixes included")
    )
    slot_save_path: Path | None = field(
        default=None, metadata=_said("folder in which clients may save slots; none: they may not")
    )
    slot_save_mib: Count | None = field(
        default=None, metadata=_said("space that saved slots may take; auto: what the disk has")
    )
    chunk_rows: Annotated[int, Meta(ge=2, le=65536)] = field(
        default=256, metadata=_said("most tokens per step; longer prompts are read in chunks")
    )
    scheduling_policy: Literal["fcfs", "priority"] = field(
        default="fcfs",
        metadata=_said(
            "fcfs: first come, first served; priority: of a key's requests, the one with the lowest `priority` first"
        ),
    )
    threads: Count | None = field(
        default=None, metadata=_said("compute threads; auto: one per usable processor")
    )
    runner: Literal["auto", "cpu", "llama", "fake"] = field(
        default="auto",
        metadata=_said(
            "what computes the model; auto: Segue's CPU kernels if they support it, else llama.cpp; fake is for tests"
        ),
    )
    cpu_flavour: str | None = field(
        default=None,
        metadata=_said(
            "instruction set of the kernels (avx2, neon, ...); auto: the best that the processor has",
            variable="SEGUE_CPU",
        ),
    )
    infill: Literal["auto", "fim-only"] = field(
        default="auto",
        metadata=_said("without FIM tokens in the model: auto ranks middles, fim-only refuses"),
    )
    engine: Literal["segue", "vllm"] = field(
        default="segue",
        metadata=_said("Segue's own engine, or vLLM, which serves Hugging Face folders"),
    )
    vllm_options: tuple[str, ...] = field(
        default=(),
        metadata=_said(
            "an engine argument of vLLM, NAME=VALUE, such as tensor_parallel_size=2",
            flag="--vllm-option",
        ),
    )
    # Not empty: that would be every address of this machine, by a variable of a script that is not set.
    host: Annotated[str, Meta(min_length=1)] = field(
        default="127.0.0.1", metadata=_said("address to listen on, or a Unix socket, unix:PATH")
    )
    port: Annotated[int, Meta(ge=0, le=65535)] = field(
        default=8080,
        metadata=_said("port to listen on; 0 takes a free one"),
    )
    server_processes: Annotated[int, Meta(ge=1, le=64)] = field(
        default=1,
        metadata=_said("processes that serve HTTP over one engine; more help if one is saturated"),
    )
    dialect: str = field(
        default="openai",
        metadata=_said("the dialect of the root paths, by its name in `segue dialects`"),
    )
    stream_interval: Count = field(
        default=1, metadata=_said("tokens in each chunk of a stream after the first")
    )
    sse_ping_interval: Annotated[int, Meta(ge=-1, le=2**31 - 1)] = field(
        default=15,  # not sooner: there are clients that take comments for text
        metadata=_said("seconds of silence after which a stream gets a comment; 0 and -1: never"),
    )
    strict_model: bool = field(
        default=False,
        metadata=_said(
            "refuse model names that are not served; otherwise a model served alone answers to any name"
        ),
    )
    preload: bool = field(
        default=False,
        metadata=_said("load all models at the start, not only the first one"),
    )
    keep_alive_s: Seconds = field(
        default=0.0, metadata=_said("unload a model after so many idle seconds; 0: never")
    )
    client_keep_alive: bool | None = field(
        default=None,
        metadata=_said(
            "let requests set how long a model stays loaded; auto: yes, unless API keys are set"
        ),
    )
    defaults: tuple[str, ...] = field(
        default=(),
        metadata=_said(
            "a default for a field that requests leave out, NAME=VALUE: a sampling field in any dialect's spelling, "
            "such as temperature=0.7, n_predict=256 or seed=1",
            flag="--default",
        ),
    )
    generation_config: tuple[str, ...] = field(
        default=(),
        metadata=_said(
            "source of a model's own sampling defaults in llama.cpp's, vLLM's and mistral.rs' dialects: auto (the "
            "model), off or vllm (none), or a generation_config.json or its folder; NAME= in front: for that model"
        ),
    )
    api_keys: tuple[str, ...] = field(
        default=(),
        repr=False,
        metadata=_said(
            "an API key, [NAME:]KEY; other users can see flags in the list of processes",
            flag="--api-key",
            variable="SEGUE_API_KEY",
            is_secret=True,
        ),
    )
    api_key_file: Path | None = field(
        default=None, metadata=_said("a file of keys, one per line, read again when it changes")
    )
    requests_per_minute: CountOrNone = field(
        default=0, metadata=_said("requests per minute for each key; 0: no limit")
    )
    tokens_per_minute: CountOrNone = field(
        default=0, metadata=_said("tokens per minute for each key, prompts included; 0: no limit")
    )
    max_concurrent: CountOrNone = field(
        default=0,
        metadata=_said("requests at once for each key, counted by candidates; 0: no limit"),
    )
    allowed_hosts: tuple[str, ...] = field(
        default=(),
        metadata=_said(
            "a Host header to allow, besides loopback and addresses", flag="--allowed-host"
        ),
    )
    cors_origins: tuple[str, ...] = field(
        default=(),
        metadata=_said(
            "a CORS origin to allow: URL, SCHEME:, localhost or *", flag="--cors-origin"
        ),
    )
    max_queue: Count = field(
        default=512, metadata=_said("requests that may wait for their first token; more get 429")
    )
    drain_timeout_s: Seconds = field(
        default=30.0,
        metadata=_said(
            "seconds that running requests get to finish when the server stops",
            flag="--drain-timeout",
        ),
    )
    step_timeout_s: Annotated[float, Meta(ge=0.1, le=10**9)] | None = field(
        default=None,
        metadata=_said(
            "seconds after which a step counts as hung and the model's process is restarted; auto: 120, on vLLM 1800",
            flag="--step-timeout",
        ),
    )
    request_timeout_s: Seconds = field(
        default=3600.0,
        metadata=_said("seconds a request may take in all; 0: no limit", flag="--request-timeout"),
    )
    body_timeout_s: Annotated[float, Meta(ge=0.1, le=10**9)] = field(
        default=60.0,
        metadata=_said("seconds a request's body may take to arrive", flag="--body-timeout"),
    )
    write_timeout_s: Annotated[float, Meta(ge=0.1, le=10**9)] = field(
        default=30.0,
        metadata=_said(
            "seconds after which a client that reads nothing is dropped", flag="--write-timeout"
        ),
    )
    # A million token ids are 8 MB of JSON, and a hundred such bodies still fit in memory.
    max_body_bytes: Annotated[int, Meta(ge=1024, le=2**31 - 1)] = field(
        default=16 << 20, metadata=_said("the largest request body accepted")
    )
    max_n: Count = field(default=128, metadata=_said("the largest n of a request"))
    max_best_of: Count = field(default=128, metadata=_said("the largest best_of of a request"))
    max_prompts: Count = field(default=1024, metadata=_said("prompts in one request"))
    max_choices: Count = field(
        default=4096, metadata=_said("candidates of one request, over all its prompts")
    )
    max_stops: Count = field(default=64, metadata=_said("stop strings in one request"))
    max_logprobs: Count = field(default=100, metadata=_said("alternatives reported per token"))
    max_logit_bias: Count = field(default=1024, metadata=_said("biased tokens in one request"))
    max_grammar_chars: Count = field(
        default=256 << 10, metadata=_said("the size of a request's grammar or schema")
    )
    max_total_tokens: Count = field(
        default=1 << 20, metadata=_said("tokens that one request may generate, over all candidates")
    )
    log_level: Literal["debug", "info", "warning", "error"] = field(
        default="info", metadata=_said("the lowest level that is logged")
    )
    log_format: Literal["text", "json"] = field(
        default="text", metadata=_said("log lines: for people, or one JSON object per line")
    )
    log_prompts: bool = field(default=False, metadata=_said("log the bodies of requests"))
    otlp_endpoint: str = field(
        default="",
        metadata=_said(
            "send a trace of each request to this OpenTelemetry collector, such as http://127.0.0.1:4318"
        ),
    )

    # Which flag, variable or key of a file each value comes from; not a setting itself.
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def origin(self, name: str) -> str:
        """Where the value of this setting was given, as a message should name it."""
        return self.origins.get(name, name)

    def as_toml(self) -> str:
        """A file that load() reads back as these settings, but for the secrets."""
        rows = [
            (f"# {row.help}", f"{row.name} = {as_toml(getattr(self, row.name))}")
            for row in TABLE
            if not row.is_secret
        ]
        return "\n".join(line for pair in rows for line in pair) + "\n"


Found = dict[str, tuple[Any, str]]  # by the name of a setting: its value, and where it was given
TABLE = table_of(Settings)
_BY_NAME = {row.name: row for row in TABLE}


def load(
    flags: Mapping[str, object], environ: Mapping[str, str] = os.environ, file: Path | None = None
) -> Settings:
    """The one merge. Flags are by field name, None (or nothing in a list) where not given."""
    file = file or (Path(environ[FILE_VARIABLE]) if environ.get(FILE_VARIABLE) else None)
    found = _from_file(file) if file else {}
    found |= _from_environment(environ) | _from_flags(flags)
    if "host" in found:
        check_host(*found["host"])
    values = {name: value for name, (value, _) in found.items()}
    if "cache_dir" not in values:
        values["cache_dir"] = user_cache_dir(environ)
    return Settings(**values, origins={name: origin for name, (_, origin) in found.items()})


def _from_file(file: Path) -> Found:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))  # editors on Windows mark it
    except OSError as error:
        raise SetupError(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:  # of UTF-8 and of TOML
        raise SetupError(f"{file} is not TOML: {error}") from None
    rows = {key: (_row(key, f"{file}: "), f"{file}: {key}") for key in content}
    return {key: (row.parse(content[key], where), where) for key, (row, where) in rows.items()}


def _row(key: str, where: str = "") -> Setting:
    if key not in _BY_NAME:
        near = get_close_matches(key, _BY_NAME, 1)
        hint = f"did you mean {near[0]}?" if near else f"known are: {', '.join(_BY_NAME)}"
        raise SetupError(f"{where}there is no setting {key!r}; {hint}")
    return _BY_NAME[key]


def _from_environment(environ: Mapping[str, str]) -> Found:
    for name in environ:
        if name.startswith("SEGUE_") and environ[name]:
            _check_variable(name)
    return {
        row.name: (row.parse(text, row.variable, from_text=True), row.variable)
        for row in TABLE
        # Kubernetes sets SEGUE_PORT=tcp://… of its own accord for a service named "segue".
        if (text := environ.get(row.variable, "")) and not text.startswith("tcp://")
    }


def _check_variable(name: str) -> None:
    """Raises SetupError for one that is meant to be another: a server without its keys would be a surprise. What is
    called like no setting may be somebody else's."""
    by_spelling = {
        "SEGUE_" + word.upper().replace("-", "_"): row.variable
        for row in TABLE
        for word in (row.flag[2:], row.name)
    }
    known = [*(row.variable for row in TABLE), FILE_VARIABLE]
    if name in known:
        return
    near = get_close_matches(name, known, 1, cutoff=0.9)
    if meant := by_spelling.get(name) or next(iter(near), None):
        raise SetupError(f"there is no variable {name}; did you mean {meant}?")


def _from_flags(flags: Mapping[str, object]) -> Found:
    given = {name: value for name, value in flags.items() if value is not None and value != ()}
    rows = {name: (_row(name), _row(name).flag or name) for name in given}
    return {
        name: (row.parse(given[name], flag, row.has_commas or isinstance(given[name], str)), flag)
        for name, (row, flag) in rows.items()
    }
