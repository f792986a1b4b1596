"""How a file scales positions beyond the context a model was trained on, and what that does to scores."""

import numpy as np

from segue.models.gguf import GgufHeader
from segue.runners.cpu.exact_math import logarithm

PLAIN_BASE = 10000.0  # by which positions turn where the file names no base
SCALED = "rope.scaling.yarn_log_multiplier"  # models that may say it scale scores with positions


def real(header: GgufHeader, key: str, default: float = 0.0) -> float:
    """The number under this key of the file's architecture, or the default."""
    value = header.metadata.get(f"{header.architecture}.{key}", default)
    return float(value) if isinstance(value, int | float) else default


def scaling(header: GgufHeader) -> tuple[str, float]:
    """The kind of RoPE scaling ("linear" if the file names none) and its factor; 0 under the newer key is none too."""
    kind = header.metadata.get(f"{header.architecture}.rope.scaling.type", "linear")
    factor = real(header, "rope.scaling.factor", real(header, "rope.scale_linear"))
    return str(kind), factor or 1.0


def yarn_magnitude(header: GgufHeader, is_latent: bool) -> float:
    """YaRN's factor of cosines and sines."""
    factor = scaling(header)[1]
    if factor <= 1.0:
        return 1.0
    more, part = 0.1 * logarithm(factor), real(header, SCALED)
    whole = 1.0
    if is_latent:
        part = _told_part(header)
        # llama.cpp takes both parts to be equal in models of this name, unless they are 1.
        whole = part if part not in (0.0, 1.0) and header.architecture == "deepseek2" else 1.0
    return (1.0 + whole * more) / (1.0 + part * more)


def unscaled_magnitude(factor: float) -> float:
    """The same of layers that YaRN does not scale, for a factor below 1: llama.cpp divides there too by what it
    multiplies scaled ones with.
    """
    return 1.0 / (1.0 + 0.1 * logarithm(factor))


def latent_scale(header: GgufHeader, size: int, is_scaled: bool) -> float:
    """The factor of scores of latent attention, whose queries have `size` dimensions. It may grow with the scaling."""
    magnitude = 1.0
    if is_scaled:
        kind, factor = scaling(header)
        more = 0.0 if kind == "none" else 0.1 * logarithm(factor)
        magnitude = yarn_magnitude(header, True) if kind == "yarn" else 1.0 + more
        magnitude *= real(header, "rope.scaling.attn_factor", 1.0) or 1.0
        magnitude *= 1.0 + _told_part(header) * more
    return magnitude * magnitude / float(np.sqrt(np.float64(size)))


def _told_part(header: GgufHeader) -> float:
    """Files of models with latent attention have a tenth of it."""
    return float(np.float32(real(header, SCALED)) / np.float32(0.1))
