"""Where attention keeps what in a thread's scratch memory. Free of kernels, since others need the numbers too."""

LANES = 16
BLOCK = 32  # tokens
SEGMENT_BLOCKS = 8
SEGMENT = BLOCK * SEGMENT_BLOCKS
TILE_ROWS = 96  # query heads worked on together: they read a segment's keys and values once
FIRST_ROWS = 12  # most rows whose values are added block by block: those of a tile, or few
# Dimensions of a query that fit into a row: wider heads are taken part by part.
QUERY_PART = SEGMENT

# Bytes per row of scores or queries. Padded: rows exactly 1 KiB apart would fall into the same few sets of the
# first-level cache.
ROW_BYTES = 4 * (SEGMENT + LANES)
SUM_BYTES = 4 * LANES
BITS_PER_NAT = 1.4426950408889634  # scores are exponents of 2, those that models define of e

# Offsets of what has a row for each query head.
SCORES = 0
SUMS = SCORES + TILE_ROWS * ROW_BYTES  # of shares so far
TOPS = SUMS + TILE_ROWS * SUM_BYTES  # a whole number near the greatest score so far
TOTAL = TOPS + TILE_ROWS * SUM_BYTES  # rows of a head's size: sums of values so far


def scratch_bytes(size: int) -> int:
    """After TOTAL: the segment's own sums of values of the first rows, its values in f32, and the parts of queries.

    `size`: of keys; values are no wider.
    """
    queries = -(-size // QUERY_PART) * TILE_ROWS * ROW_BYTES
    return TOTAL + (TILE_ROWS + FIRST_ROWS + SEGMENT) * size * 4 + queries
