"""What layers with a state keep in a thread's scratch memory. Free of kernels: the workspace needs the sizes too."""

from typing import NamedTuple

from segue.runners.cpu.step.board import MOST_PENDING

CHUNK = 8  # rows that a delta net prepares together, unless the changes of more stay pending
COLUMNS = 32  # values that are computed together
NUMBERS = 16  # floats after a row's query, key and change; the first ones are named below
MOST_PREPARED = max(CHUNK, MOST_PENDING)
DECAY, BETA, OVERLAP = range(3)
# Parts of a prepared row of RWKV 7, each of a head's size; from FADES on they are what the row changes. Then NUMBERS.
READ, TAKEN, FADES, KEYS, RATES, VALUES, CORRECTIONS, WKV_PARTS = range(8)
OF_VALUES, OF_CORRECTIONS, BONUS = range(3)
# The same of RWKV 6, which corrects nothing.
READ6, FADES6, KEYS6, VALUES6, WKV6_PARTS = range(5)
# By the kind of layer: parts of a head's size that a prepared row has, and of these, those before its change.
_PARTS = {"delta": (3, 1), "kda": (5, 2), "wkv6": (WKV6_PARTS, FADES6), "wkv7": (WKV_PARTS, FADES)}
STEP_BYTES = 8  # of a row of Mamba 2: dt and decay
SCANNED = 32  # rows of a span that Mamba 1 and 2 compute together
SELECTIVE_SIZE = 64  # columns of Mamba 1 that are worked on together
SELECTIVE_BYTES = (
    8 * SELECTIVE_SIZE
)  # of a row of Mamba 1: dt of these columns, and the columns times dt


class Record(NamedTuple):
    """A row as it is prepared for a head's matrix, in floats: what it reads; its change; NUMBERS."""

    floats: int
    start: int  # of the change


def record_of(mixer: str, size: int) -> Record:
    parts, read = _PARTS[mixer]
    return Record(parts * size + NUMBERS, read * size)


def matrices_scratch(size: int) -> int:
    """Bytes, for heads of that size, whatever their layer is."""
    most = max(record_of(mixer, size).floats for mixer in _PARTS)
    return (MOST_PREPARED * most + COLUMNS * size) * 4


def scan_scratch(rows: int) -> int:
    """Bytes, for a span of so many rows."""
    return max(STEP_BYTES * rows, SELECTIVE_BYTES * SCANNED)
