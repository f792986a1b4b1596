"""What a draw is told and what it says: numbers that kernels and Python read alike."""

# --- a record: words of 8 bytes ---

RECORD_WORDS = 16
(
    ROW,  # of the logits
    POINT,  # a double in [0, 1)
    NUM_CUTS,
    CUTS,  # the first of them
) = range(4)
CUT_WORDS = 3  # kind, a double, a count
MAX_CUTS = 4
TOKEN = 15  # what was drawn, or one of the numbers below

NONE_LEFT, NO_NUMBERS, NOT_DONE = -1, -2, -3

# --- kinds of cuts ---

SCALE, TOP_K, TOP_P, MIN_P = range(4)

# --- the scratch of a thread: parts of as many floats as a row has, rounded up ---

BLOCK = 64  # logits that share a peak
SCALED, WEIGHTS, IDS, LOGITS, IDS_2, LOGITS_2, VALUES, PLACES, PEAKS, NUM_PARTS = range(10)


def part_bytes(vocab_size: int) -> int:
    return -(-vocab_size // BLOCK) * BLOCK * 4
