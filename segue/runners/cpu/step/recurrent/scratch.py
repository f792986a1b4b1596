"""What layers with a state keep in a thread's scratch memory. Free of kernels: the workspace needs the sizes too."""

from segue.runners.cpu.step.board import MOST_PENDING

CHUNK = 8  # rows that a delta net prepares together, unless the changes of more stay pending
COLUMNS = 32  # values that are computed together
NUMBERS = 16  # floats after a row's query, key and change; the first ones are named below
MOST_PREPARED = max(CHUNK, MOST_PENDING)
DECAY, BETA, OVERLAP = range(3)
# Parts of a prepared row of RWKV, each of a head's size; from FADES on they are what the row changes. Then NUMBERS.
READ, TAKEN, FADES, KEYS, RATES, VALUES, CORRECTIONS, WKV_PARTS = range(8)
OF_VALUES, OF_CORRECTIONS, BONUS = range(3)
STEP_BYTES = 8  # of a row of Mamba 2: dt and decay
SCANNED = 32  # rows of a span that Mamba 1 and 2 compute together
SELECTIVE_SIZE = 64  # columns of Mamba 1 that are worked on together
SELECTIVE_BYTES = (
    8 * SELECTIVE_SIZE
)  # of a row of Mamba 1: dt of these columns, and the columns times dt


def delta_scratch(size: int) -> int:
    """Bytes, for heads of that size whose keys fade by themselves; others take less."""
    return (MOST_PREPARED * (5 * size + NUMBERS) + COLUMNS * size) * 4


def scan_scratch(rows: int) -> int:
    """Bytes, for a span of so many rows."""
    return max(STEP_BYTES * rows, SELECTIVE_BYTES * SCANNED)


def wkv_scratch(size: int) -> int:
    """Bytes, for heads of that size."""
    return (MOST_PREPARED * (WKV_PARTS * size + NUMBERS) + COLUMNS * size) * 4
