"""What delta nets and Mamba 2 keep in a thread's scratch memory. Free of kernels: the workspace needs the sizes too."""

CHUNK = 8  # rows that a delta net prepares together
NUMBERS = 16  # floats after a row's query and key; the first ones are named below
DECAY, BETA, OVERLAP = range(3)
STEP_BYTES = 8  # of a row of Mamba 2: dt and decay


def delta_scratch(size: int) -> int:
    """Bytes, for heads of that size."""
    return CHUNK * (2 * size + NUMBERS) * 4


def scan_scratch(rows: int) -> int:
    """Bytes, for a span of so many rows."""
    return STEP_BYTES * rows
