"""What a delta net keeps in a thread's scratch memory. Free of kernels, since the workspace needs the sizes too."""

CHUNK = 8  # rows that are prepared together
NUMBERS = 16  # floats after a row's query and key; the first ones are named below
DECAY, BETA, OVERLAP = range(3)


def delta_scratch(size: int) -> int:
    """Bytes, for heads of that size."""
    return CHUNK * (2 * size + NUMBERS) * 4
