"""RoPE, how positions rotate queries and keys: bases, factors of the file, linear scaling, YaRN, LongRoPE."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.families import FAMILIES
from segue.runners.cpu.architectures.hparams import hparams_of
from segue.runners.cpu.architectures.layers import has_told_sections, head_size, pairs_of
from segue.runners.cpu.architectures.scaling import (
    PLAIN_BASE,
    real,
    scaling,
    unscaled_magnitude,
    yarn_magnitude,
)
from segue.runners.cpu.exact_math import logarithm, power

TEMPERATURE_LENGTH = "attention.temperature_length"
_PI = 3.141592653589793

Doubles = NDArray[np.float64]


class Rotations(NamedTuple):
    speeds: Doubles  # how far each pair of dimensions turns from one position to the next
    magnitude: float  # a factor for cosines and sines


def rotations(
    header: GgufHeader, vectors: Mapping[str, NDArray[np.float32]], is_windowed: bool = False
) -> Rotations:
    """For layers that see all tokens, or (`is_windowed`) those with a window. `vectors`: the file's factors by name."""
    hparams = hparams_of(header)
    window, pairs = hparams.family.window, pairs_of(header, hparams.family, is_windowed)
    base = _base(header)
    if is_windowed and window is not None:
        base = real(header, "rope.freq_base_swa", window.base) or base
    speeds = np.array([power(base, -i / pairs) for i in range(pairs)], np.float64)
    speeds *= _turning(header, pairs)
    magnitude = real(header, "rope.scaling.attn_factor", 1.0) or 1.0
    kind, factor = scaling(header)
    if is_windowed and window is not None and window.is_plain:
        if kind == "yarn" and factor < 1.0:
            magnitude *= unscaled_magnitude(factor)
        return Rotations(speeds, magnitude if window.is_magnified else 1.0)
    if kind in ("linear", "longrope"):
        speeds /= factor
    factors = vectors.get(_factors(header, vectors))
    if factors is not None:
        speeds /= factors.reshape(-1)[:pairs].astype(np.float64)
    if kind == "yarn":
        magnitude *= yarn_magnitude(header, hparams.family.is_latent)
        share = _ramp(header, base, pairs)
        return Rotations(speeds / factor * (1.0 - share) + speeds * share, magnitude)
    return Rotations(speeds, magnitude)


def _base(header: GgufHeader) -> float:
    """As the file says; hunyuan_vl's grows by a factor for longer contexts."""
    base, size = real(header, "rope.freq_base", PLAIN_BASE) or PLAIN_BASE, head_size(header)
    factor = real(header, "rope.scaling.alpha")
    return base * power(factor, size / (size - 2)) if factor else base


def _turning(header: GgufHeader, pairs: int) -> Doubles:
    """For each pair of dimensions: 1, or 0 if it stands still: in a section of which a text's positions are all 0."""
    family = FAMILIES[header.architecture]
    kind = family.sections
    sizes = [int(size) for size in header.listed("rope.dimension_sections")]
    is_off = kind == "side by side or none" and 0 in (sizes or [0])[:2]
    is_off |= kind == "side by side if told" and not has_told_sections(header, family)
    if kind == "none" or is_off:
        return np.ones(pairs)
    places = np.arange(pairs) % sum(sizes)
    if kind == "interleaved":
        return (places < 3 * np.array(sizes)[places % 3]).astype(np.float64)
    return (places < sum(sizes[:3])).astype(np.float64)


def temperatures(header: GgufHeader, positions: int) -> NDArray[np.float32]:
    """Factors of queries, which grow with each length of the original context or of a chunk; none without a scale."""
    hparams = hparams_of(header)
    scale, window = hparams.temperature, hparams.family.window
    length = header.count(TEMPERATURE_LENGTH) or original_context(header)
    places = np.arange(positions)
    if window is not None and window.is_chunked:
        length, places = window.size, places + 1
    if not scale:
        return np.empty(0, np.float32)
    steps = [1.0 + scale * logarithm(1.0 + i) for i in range(positions // length + 1)]
    return np.array(steps, np.float32)[places // length]


def original_context(header: GgufHeader) -> int:
    return header.count("rope.scaling.original_context_length") or header.train_context


def _factors(header: GgufHeader, vectors: Mapping[str, NDArray[np.float32]]) -> str:
    """The name of the factors to use. LongRoPE's choice depends on the file alone, not on the served context length."""
    if "rope_freqs.weight" in vectors:
        return "rope_freqs.weight"
    is_long = header.train_context > original_context(header)
    return f"rope_factors_{'long' if is_long else 'short'}.weight"


def yarn_betas(header: GgufHeader) -> tuple[float, float]:
    """As the file says, or as is usual."""
    usual = FAMILIES[header.architecture].yarn_betas
    keys = ("rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow")
    fast, slow = (real(header, key, beta) for key, beta in zip(keys, usual, strict=True))
    return fast, slow


def _ramp(header: GgufHeader, base: float, pairs: int) -> Doubles:
    """For each pair of dimensions: 1 if YaRN keeps its speed, 0 if it is scaled, between them a mix."""

    def place(turns: float) -> float:
        around = original_context(header) / (turns * 2 * _PI)
        return pairs * logarithm(around) / logarithm(base)

    fast, slow = yarn_betas(header)
    low = max(0.0, math.floor(place(fast)))
    high = min(2.0 * pairs - 1, math.ceil(place(slow)))
    along = (np.arange(pairs, dtype=np.float64) - low) / max(0.001, high - low)
    return 1.0 - np.minimum(1.0, np.maximum(0.0, along))
