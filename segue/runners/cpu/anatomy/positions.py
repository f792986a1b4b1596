"""How positions turn queries and keys: bases, factors of the file, linear scaling, YaRN, long rope."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segue.models.gguf import GgufHeader
from segue.runners.cpu.anatomy.measures import anatomy_of, real
from segue.runners.cpu.exact_math import logarithm, power

SCALINGS = ("none", "linear", "yarn", "longrope")
# YaRN: what turns more often than the first over the original context is left, what turns less than the second scaled.
YARN_FAST, YARN_SLOW = 32.0, 1.0
_PI = 3.141592653589793

Doubles = NDArray[np.float64]


class Rotations(NamedTuple):
    speeds: Doubles  # how far each pair of dimensions turns from one position to the next
    magnitude: float  # of cosines and sines


def rotations(
    header: GgufHeader, vectors: Mapping[str, NDArray[np.float32]], is_windowed: bool = False
) -> Rotations:
    """Of layers that see all tokens, or of those with a window. `vectors` has the file's factors by name."""
    anatomy = anatomy_of(header)
    window, pairs = anatomy.family.window, anatomy.pairs
    base = real(header, "rope.freq_base", 10000.0) or 10000.0
    if is_windowed and window is not None:
        base = real(header, "rope.freq_base_swa", window.base) or base
    speeds = np.array([power(base, -i / pairs) for i in range(pairs)], np.float64)
    if is_windowed and window is not None and window.is_plain:
        return Rotations(speeds, 1.0)
    kind, factor = _scaling(header)
    magnitude = real(header, "rope.scaling.attn_factor", 1.0) or 1.0
    if kind in ("linear", "longrope"):
        speeds /= factor
    factors = vectors.get(_factors(header, vectors))
    if factors is not None:
        speeds /= factors.reshape(-1).astype(np.float64)
    if kind == "yarn":
        magnitude *= 1.0 + 0.1 * logarithm(factor) if factor > 1.0 else 1.0
        share = _ramp(header, base, pairs)
        return Rotations(speeds / factor * (1.0 - share) + speeds * share, magnitude)
    return Rotations(speeds, magnitude)


def _scaling(header: GgufHeader) -> tuple[str, float]:
    """Its kind, linear where the file has none, and its factor."""
    kind = header.metadata.get(f"{header.architecture}.rope.scaling.type", "linear")
    factor = real(header, "rope.scaling.factor") or real(header, "rope.scale_linear")
    return str(kind), factor or 1.0


def original_context(header: GgufHeader) -> int:
    return header.count("rope.scaling.original_context_length") or header.train_context


def _factors(header: GgufHeader, vectors: Mapping[str, NDArray[np.float32]]) -> str:
    """The file's factors. Which of a long rope's are taken is a matter of the file, not of how it is served."""
    if "rope_freqs.weight" in vectors:
        return "rope_freqs.weight"
    is_long = header.train_context > original_context(header)
    return f"rope_factors_{'long' if is_long else 'short'}.weight"


def _ramp(header: GgufHeader, base: float, pairs: int) -> Doubles:
    """Of each pair: 1 where YaRN leaves its speed, 0 where it is scaled."""

    def place(turns: float) -> float:
        around = original_context(header) / (turns * 2 * _PI)
        return pairs * logarithm(around) / logarithm(base)

    low = max(0.0, math.floor(place(YARN_FAST)))
    high = min(2.0 * pairs - 1, math.ceil(place(YARN_SLOW)))
    along = (np.arange(pairs, dtype=np.float64) - low) / max(0.001, high - low)
    return 1.0 - np.minimum(1.0, np.maximum(0.0, along))
