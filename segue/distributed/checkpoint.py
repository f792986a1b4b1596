"""What a folder of safetensors says about its weights, without reading them."""

import json
import math
from pathlib import Path
from typing import NamedTuple

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
