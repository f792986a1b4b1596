"""Where attention keeps what in a thread's scratch memory. Free of kernels, since the workspace needs the sizes too."""

LANES = 16
BLOCK = 32  # tokens
SEGMENT_BLOCKS = 8
SEGMENT = BLOCK * SEGMENT_BLOCKS
TILE_ROWS = 48  # query heads worked on together: they read a segment's keys and values once
# Dimensions of a query that fit into a row: wider heads are taken part by part.
QUERY_PART = SEGMENT

# Bytes per row of scores or queries. Padded: rows exactly 1 KiB apart would fall into the same few sets of the
# first-level cache.
ROW_BYTES = 4 * (SEGMENT + LANES)
SUM_BYTES = 4 * LANES

# Offsets of what has a row for each query head.
SCORES = 0
SUMS = SCORES + TILE_ROWS * ROW_BYTES  # of the segment's shares
ALL_SUMS = SUMS + TILE_ROWS * SUM_BYTES
TOPS = ALL_SUMS + TILE_ROWS * SUM_BYTES  # the greatest score so far, and that of the segment
TOTAL = TOPS + TILE_ROWS * SUM_BYTES  # rows of a head's size: sums of values so far


def scratch_bytes(size: int) -> int:
    """After TOTAL: the segment's own sums of values, its values in f32, and the parts of queries.

    `size`: of keys; values are no wider.
    """
    queries = -(-size // QUERY_PART) * TILE_ROWS * ROW_BYTES
    return TOTAL + 2 * TILE_ROWS * size * 4 + SEGMENT * size * 4 + queries
