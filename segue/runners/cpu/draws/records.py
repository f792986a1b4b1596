"""The layout of a draw's record, its input and its result, for kernels and Python alike."""

# --- a record: words of 8 bytes ---

RECORD_WORDS = 32
(
    ROW,  # row of the logits
    POINT,  # a double in [0, 1)
    NUM_CUTS,
    CUTS,  # where the first cut begins
) = range(4)
CUT_WORDS = 3  # kind, a double, a count
TOKEN = 15  # what was drawn, or one of the numbers below
# What to add to the row before: addresses of token ids (i64) and of floats, and how many. The row is restored later.
CHANGED_IDS, ADDED, NUM_CHANGES = range(16, 19)
# Tokens that occurred, whose logits are penalised after that.
(
    SEEN,  # address of the first one (i64)
    NUM_SEEN,
    NUM_UNCOUNTED,  # so many of the first have the repetition penalty only
    LAST,  # address of one more, where negative numbers mean token 0; 0: there is none
    FACTORS,  # three floats: repetition, presence, frequency
) = range(19, 24)
# Which tokens may be drawn: Python writes where the threads are told, and they write what they were told.
AWAITED = 26  # address of a word: 0 until it is told, then an address of bits, or -1: draw nothing
ALLOWED = 27  # what the word was when the draw began, -1 if it was not told in time
# 0 in both: all tokens.
# A list of allowed tokens to draw from: address of the first one (i64), and how many. 0 in both: there is none.
ONLY, NUM_ONLY = range(28, 30)

NONE_LEFT, NO_NUMBERS, NOT_DONE = -1, -2, -3

# --- kinds of cuts ---

SCALE, TOP_K, TOP_P, MIN_P = range(4)

# --- the scratch memory of a thread: parts of one row of floats each, rounded up ---

BLOCK = 64  # logits whose maximum is one entry of PEAKS
SCALED, WEIGHTS, IDS, LOGITS, IDS_2, LOGITS_2, VALUES, PLACES, PEAKS = range(9)
SAVED, REPEATED, UNPENALISED, MASKED, NUM_PARTS = range(9, 14)  # of the row before the draw
COUNTS = WEIGHTS  # before the draw too


def part_bytes(vocab_size: int) -> int:
    return -(-vocab_size // BLOCK) * BLOCK * 4
