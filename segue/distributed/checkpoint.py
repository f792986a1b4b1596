"""What a model's folder says about its weights, without reading them, and about sampling."""

import json
import logging
import math
from pathlib import Path
from typing import Any, NamedTuple

from segue.errors import SetupError
from segue.models import model_defaults
from segue.types import ModelDefaults

log = logging.getLogger("segue")

_MAX_HEADER = 100 * 1024 * 1024  # bytes, the limit of the format itself


class Weights(NamedTuple):
    num_params: int
    size_bytes: int


def read_weights(model: str) -> Weights:
    """Number and size of the weights; zeros if `model` is not a local folder of safetensors: nothing is downloaded."""
    files = sorted(Path(model).glob("*.safetensors")) if Path(model).is_dir() else []
    return Weights(sum(map(_num_params, files)), sum(file.stat().st_size for file in files))


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
