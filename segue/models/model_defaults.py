"""Sampling defaults that a model brings along: `general.sampling.*` of a GGUF file, or a generation_config.json.

A value that cannot be used is left out with a warning if the model says it: a model must not keep a server from
starting. In a file that the operator names it is an error.
"""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from segue.bounds import MAX_INT32, MAX_NUMBER, MAX_SAMPLING_STEPS, MIN_DIVISOR
from segue.errors import SetupError
from segue.models import gguf
from segue.models.names import shown_name
from segue.types import ModelDefaults, Step, step_named

FILE_NAME = "generation_config.json"
_MAX_BYTES = 1 << 20
_MAX_SHOWN = 40

log = logging.getLogger("segue")


class _Range(NamedTuple):
    low: float
    high: float
    is_whole: bool = False


_RANGES = {  # by field of Sampling
    "temperature": _Range(0, MAX_NUMBER),
    "top_k": _Range(-1, MAX_INT32, is_whole=True),
    "top_p": _Range(0, 1),
    "min_p": _Range(0, 1),
    "xtc_probability": _Range(0, 1),
    "xtc_threshold": _Range(0, 1),
    "repetition_penalty": _Range(MIN_DIVISOR, MAX_NUMBER),
    "presence_penalty": _Range(-2, 2),
    "frequency_penalty": _Range(-2, 2),
    "penalty_window": _Range(-1, MAX_INT32, is_whole=True),
    "mirostat": _Range(0, 2, is_whole=True),
    "mirostat_tau": _Range(0, MAX_NUMBER),
    "mirostat_eta": _Range(0, MAX_NUMBER),
}
_MAX_TOKENS = _Range(1, MAX_INT32, is_whole=True)

# llama.cpp's names where they are not those of Sampling. `sequence` is the order of the steps.
_GGUF_NAMES = {
    "temp": "temperature",
    "penalty_repeat": "repetition_penalty",
    "penalty_last_n": "penalty_window",
}
_GGUF_KEYS = ("top_k", "top_p", "min_p", "xtc_probability", "xtc_threshold", *_GGUF_NAMES)
_MIROSTAT_KEYS = ("mirostat", "mirostat_tau", "mirostat_eta")
# What vLLM and mistral.rs read, besides do_sample, max_new_tokens and, in vLLM since 0.33, skip_special_tokens.
_JSON_KEYS = (
    "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
)  # fmt: skip


class Found(NamedTuple):
    """What a file says that can be used, and a sentence for each key that cannot."""

    defaults: ModelDefaults | None
    problems: tuple[str, ...]


class _Wrong(Exception):
    """What a value would have to be."""


def of_gguf(header: gguf.GgufHeader, file: str) -> Found:
    """Of the keys that llama.cpp's server reads. `file`: its name."""
    sampling: dict[str, Any] = {}
    problems: list[str] = []
    for name in (*_GGUF_KEYS, *_MIROSTAT_KEYS, "sequence"):
        key = f"general.sampling.{name}"
        if key not in header.metadata and key not in header.array_lengths:
            continue
        value: Any = header.metadata.get(key, [])
        try:
            if name == "sequence":
                sampling["order"] = _order(value, key, problems)
            else:
                field = _GGUF_NAMES.get(name, name)
                sampling[field] = _number(_as_decimal(value), _RANGES[field])
        except _Wrong as wrong:
            problems.append(f"{key} {wrong}")
    return Found(_unless_empty(ModelDefaults(source=file, sampling=sampling)), tuple(problems))


def of_config(config: Mapping[str, Any], file: str) -> Found:
    """Of the content of a generation_config.json. A null is the same as no key."""
    sampling: dict[str, Any] = {}
    problems: list[str] = []
    for key in _JSON_KEYS:
        if (value := config.get(key)) is not None:
            try:
                sampling[key] = _number(value, _RANGES[key])
            except _Wrong as wrong:
                problems.append(f"{key} {wrong}")
    most = None
    try:
        if (value := config.get("max_new_tokens")) is not None:
            most = int(_number(value, _MAX_TOKENS))
    except _Wrong as wrong:
        problems.append(f"max_new_tokens {wrong}")
    skips = config.get("skip_special_tokens")
    if skips is not None and type(skips) is not bool:
        problems.append(f"skip_special_tokens must be true or false, not {_shown(skips)}")
        skips = None
    said = ModelDefaults(
        source=file,
        sampling=sampling,
        is_greedy=config.get("do_sample") is False,
        max_tokens=most,
        show_special=None if skips is None else not skips,
    )
    return Found(_unless_empty(said), tuple(problems))


def _unless_empty(said: ModelDefaults) -> ModelDefaults | None:
    if said == ModelDefaults(source=said.source):
        return None
    if "top_k" in said.sampling:
        said.sampling["top_k"] = max(0, said.sampling["top_k"])  # 0 is off, -1 too
    return said


def _number(value: Any, wanted: _Range) -> int | float:
    kind = "a whole number" if wanted.is_whole else "a number"
    if type(value) not in (int, float) or not wanted.low <= value <= wanted.high:
        raise _Wrong(f"must be {kind} from {wanted.low} to {wanted.high}, not {_shown(value)}")
    if not wanted.is_whole:
        return float(value)
    if value != int(value):
        raise _Wrong(f"must be {kind}, not {_shown(value)}")
    return int(value)


def _as_decimal(value: Any) -> Any:
    """A float of 32 bits as its writer meant it, and as llama.cpp reads it: six digits after the point."""
    return float(f"{value:.6f}") if type(value) is float and math.isfinite(value) else value


def _order(value: Any, key: str, problems: list[str]) -> tuple[Step, ...]:
    """Names with ";" between them. One that is not known is left out, as llama.cpp does."""
    names = value.split(";") if type(value) is str else []
    if not 0 < len(names) <= MAX_SAMPLING_STEPS:
        raise _Wrong(
            f"must be at most {MAX_SAMPLING_STEPS} names of steps with ; between them, not {_shown(value)}"
        )
    steps = tuple(step for name in names if (step := step_named(name.strip())))
    unknown = [name for name in names if not step_named(name.strip())]
    if not steps:
        raise _Wrong(f"names no step of sampling: {_shown(value)}")
    problems += [f"{key} names {_shown(name)}, which is no step of sampling" for name in unknown]
    return steps


def _shown(value: Any) -> str:
    text = "a list" if isinstance(value, list) else repr(value)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"


# --- where they come from ------------------------------------------------------------------------

Choice = Literal["auto", "off"] | Path
"""Of --generation-config, for one model. A path is that of a file."""


def choices(texts: Sequence[str], served: Iterable[str]) -> dict[str, Choice]:
    """What is chosen for each served name. Raises SetupError if a file is missing or wrong."""
    for_all: Choice = "auto"
    own: dict[str, Choice] = {}
    names = tuple(served)
    for text in texts:
        name, equals, rest = text.partition("=")
        if equals and name in names:
            own[name] = _choice(rest)
        else:
            for_all = _choice(text)
    return {name: own.get(name, for_all) for name in names}


def _choice(text: str) -> Choice:
    if text == "auto":
        return "auto"
    if text in ("off", "vllm"):
        return "off"
    path = Path(text).expanduser()
    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        raise SetupError(
            f"--generation-config {text}: there is no file {file}; write auto, off, or the path of a {FILE_NAME} "
            "or of its folder, each with NAME= in front for one of several models"
        )
    of_named(file)  # what is wrong with it is said at the start, not when the model is loaded
    return file


def of_choice(choice: Choice, model: Path | None) -> ModelDefaults | None:
    """The defaults of the GGUF file at `model`, if there is one, or of the file that was chosen. Raises SetupError."""
    if isinstance(choice, Path):
        return of_named(choice)
    if choice == "off" or model is None:
        return None
    found = of_gguf(gguf.header(model), shown_name(model))
    warn(found, model.name)
    return found.defaults


def of_named(file: Path) -> ModelDefaults | None:
    """Of a generation_config.json that the operator names: whatever is wrong with it is an error."""
    found = of_config(read_config(file), file.name)
    if found.problems:
        raise SetupError(f"--generation-config {file}: {'; '.join(found.problems)}")
    return found.defaults


def warn(found: Found, file: str) -> None:
    for problem in found.problems:
        log.warning("a sampling default of %s is left out: %s", file, problem)


def announce(name: str, defaults: ModelDefaults) -> None:
    log.info(
        "%s: sampling defaults by %s: %s (without them: --generation-config off)",
        name,
        defaults.source,
        in_words(defaults),
    )


def read_config(file: Path) -> dict[str, Any]:
    """Raises SetupError."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise SetupError(f"{file} is larger than {_MAX_BYTES} bytes, which no {FILE_NAME} is")
        config = msgspec.json.decode(content)
    except OSError as error:
        raise SetupError(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise SetupError(f"{file} is not JSON: {error}") from None
    if type(config) is not dict:
        raise SetupError(f"{file} must be a JSON object, not {_shown(config)}")
    return config


def in_words(defaults: ModelDefaults) -> str:
    """For people: "temperature 0.6, top_k 20"."""
    words = [
        f"{name} {', '.join(value) if isinstance(value, tuple) else f'{value:g}'}"
        for name, value in defaults.sampling.items()
    ]
    words += ["do_sample false"] if defaults.is_greedy else []
    if defaults.max_tokens is not None:
        words.append(f"max_new_tokens {defaults.max_tokens}")
    if defaults.show_special is not None:
        words.append(f"skip_special_tokens {str(not defaults.show_special).lower()}")
    return ", ".join(words)
