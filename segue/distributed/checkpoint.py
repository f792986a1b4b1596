"""What a model's folder says about itself: its weights, without reading them, its configuration and sampling."""

import json
import logging
import math
from pathlib import Path
from typing import Any, NamedTuple

from segue.errors import SetupError
from segue.models import model_defaults
from segue.types import ModelDefaults, Origin

log = logging.getLogger("segue")

_MAX_HEADER = 100 * 1024 * 1024  # bytes, the limit of the format itself

# What config.json has, by GGUF's names below the architecture's.
_GGUF_NAMES = {
    "context_length": ("max_position_embeddings",),
    "embedding_length": ("hidden_size",),
    "block_count": ("num_hidden_layers",),
    "feed_forward_length": ("intermediate_size",),
    "vocab_size": ("vocab_size",),
    "attention.head_count": ("num_attention_heads",),
    "attention.head_count_kv": ("num_key_value_heads",),
    "attention.key_length": ("head_dim",),
    "attention.layer_norm_rms_epsilon": ("rms_norm_eps",),
    "attention.layer_norm_epsilon": ("layer_norm_eps", "layer_norm_epsilon"),
    "attention.sliding_window": ("sliding_window",),
    "rope.freq_base": ("rope_theta",),
    "expert_count": ("num_local_experts", "num_experts", "n_routed_experts"),
    "expert_used_count": ("num_experts_per_tok",),
}
_TOKENS = {
    "tokenizer.ggml.bos_token_id": "bos_token_id",
    "tokenizer.ggml.eos_token_id": "eos_token_id",
    "tokenizer.ggml.padding_token_id": "pad_token_id",
}


class Weights(NamedTuple):
    num_params: int
    size_bytes: int


def read_weights(model: str) -> Weights:
    """Number and size of the weights; zeros if `model` is not a local folder of safetensors: nothing is downloaded."""
    files = _files(model)
    return Weights(sum(map(_num_params, files)), sum(file.stat().st_size for file in files))


def read_origin(model: str, config: Any) -> Origin:
    """The folder, and what its config.json knows under GGUF's names. `config`: as Transformers reads it."""
    files = [file.stat() for file in _files(model)]
    return Origin(
        format="safetensors",
        num_bytes=sum(each.st_size for each in files),
        modified=max((each.st_mtime for each in files), default=0.0),
        metadata=_metadata(config),
    )


def _metadata(config: Any) -> dict[str, str | int | float | bool | None]:
    architecture = config.model_type
    found: dict[str, Any] = {"general.architecture": architecture}
    for name, spellings in _GGUF_NAMES.items():
        found[f"{architecture}.{name}"] = _first(config, spellings)
    for name, spelling in _TOKENS.items():
        found[name] = _first(config, (spelling,))
    return {name: value for name, value in found.items() if value is not None}


def _first(config: Any, spellings: tuple[str, ...]) -> Any:
    """The first that is a number or a text; None if there is none. Some models have a list for a number."""
    values = (getattr(config, spelling, None) for spelling in spellings)
    return next((value for value in values if isinstance(value, str | int | float)), None)


def _files(model: str) -> list[Path]:
    return sorted(Path(model).glob("*.safetensors")) if Path(model).is_dir() else []


def _num_params(file: Path) -> int:
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(size)) if size <= _MAX_HEADER else {}
    return sum(
        math.prod(about["shape"]) for name, about in header.items() if name != "__metadata__"
    )


def own_defaults(name: str, model_config: Any) -> ModelDefaults | None:
    """vLLM's own choice of values, but for those that it would refuse with every request."""
    source = model_config.generation_config
    _warn_if_broken(model_config.model if source in ("auto", "vllm") else source)
    config = dict(model_config.get_diff_sampling_param())
    most = config.pop("max_tokens", None)
    if source in ("auto", "vllm"):  # the model's own does not bound what a request asks for
        most = model_config.override_generation_config.get("max_new_tokens")
    if source != "vllm":
        config["do_sample"] = model_config.try_get_generation_config().get("do_sample")
    found = model_defaults.of_config({**config, "max_new_tokens": most}, model_defaults.FILE_NAME)
    model_defaults.warn(found, f"{name} ({model_defaults.FILE_NAME})")
    if found.defaults is not None:
        model_defaults.announce(name, found.defaults)
    return found.defaults


def _warn_if_broken(folder: str) -> None:
    """vLLM passes by a file that it cannot read."""
    file = Path(folder) / model_defaults.FILE_NAME
    if file.is_file():
        try:
            model_defaults.read_config(file)
        except SetupError as error:
            log.warning("sampling defaults are left out: %s", error.message)
