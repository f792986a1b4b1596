"""What delta nets and Mamba 2 keep in a thread's scratch memory. Free of kernels: the workspace needs the sizes too."""

from segue.runners.cpu.step.board import MOST_PENDING

CHUNK = 8  # rows that a delta net prepares together, unless the changes of more stay pending
COLUMNS = 32  # values that are computed together
NUMBERS = 16  # floats after a row's query, key and change; the first ones are named below
MOST_PREPARED = max(CHUNK, MOST_PENDING)
DECAY, BETA, OVERLAP = range(3)
STEP_BYTES = 8  # of a row of Mamba 2: dt and decay


def delta_scratch(size: int) -> int:
    """Bytes, for heads of that size."""
    return (MOST_PREPARED * (3 * size + NUMBERS) + COLUMNS * size) * 4


def scan_scratch(rows: int) -> int:
    """Bytes, for a span of so many rows."""
    return STEP_BYTES * rows
