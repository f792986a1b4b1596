"""Limits of the gated feed-forward, which some files give for each layer: of experts, and of all else."""

from segue.models.gguf import GgufHeader
from segue.runners.cpu.anatomy.scaling import real

LIMITS = ("swiglu_clamp_exp", "swiglu_clamp_shexp")
_LEAST, _MOST = 1e-6, 1e30  # llama.cpp takes less for none


def limits_of(header: GgufHeader, key: str) -> tuple[float, ...]:
    """Of each layer: as the file lists them, or one for all; 0 where there is none."""
    told = header.listed(key) or (real(header, key),) * header.count("block_count")
    numbers = (float(value) if isinstance(value, int | float) else 0.0 for value in told)
    return tuple(value if value > _LEAST else 0.0 for value in numbers)


def wrong_limits(header: GgufHeader) -> str | None:
    """Why the file's lists cannot be used, or None."""
    layers = header.count("block_count")
    for key in LIMITS:
        values = header.listed(key)
        if f"{header.architecture}.{key}" in header.array_lengths and len(values) != layers:
            return f"limits are told of {len(values)} layers, not of {layers}"
        if not all(isinstance(value, int | float) and abs(value) <= _MOST for value in values):
            return f"{header.architecture}.{key} has numbers that make no sense"
    return None
