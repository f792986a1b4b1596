"""Limits of the gated feed-forward, which some files give for each layer: of experts, and of all else."""

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.family import Family
from segue.runners.cpu.architectures.scaling import real

LIMITS = ("swiglu_clamp_exp", "swiglu_clamp_shexp")
_LEAST = 1e-6  # llama.cpp takes less for none


def limits_of(header: GgufHeader, key: str) -> tuple[float, ...]:
    """Of each layer: as the file lists them, or one for all; 0 where there is none."""
    told = header.listed(key) or (real(header, key),) * header.count("block_count")
    numbers = (float(value) if isinstance(value, int | float) else 0.0 for value in told)
    return tuple(value if value > _LEAST else 0.0 for value in numbers)


def wrong_limits(header: GgufHeader, _: Family) -> str | None:
    """Why the file's lists cannot be used, or None."""
    layers = header.count("block_count")
    for key in LIMITS:
        name, told = f"{header.architecture}.{key}", len(header.listed(key))
        if name in header.array_lengths and told != layers:
            return f"{name} is told of {told} layers, not of {layers}"
    return None
