"""The layout of a draw's record, its input and its result, for kernels and Python alike."""

# --- a record: words of 8 bytes ---

RECORD_WORDS = 40
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
# What is told while the draw is open: Python writes where the threads are told, and they write what they were told.
AWAITED = 26  # address of a word: 0 until it is told, then the address of what is told, or -1: draw nothing
TOLD = 27  # what the word was when the draw began, -1 if it was not told in time
# 0 in both: nothing is.
# A list of allowed tokens to draw from: address of the first one (i64), and how many. 0 in both: there is none.
ONLY, NUM_ONLY = range(28, 30)
NOTHING = 30  # four words that stay 0: what a draw is told that waits for nothing

# --- what is told: four words of 8 bytes ---

LATE_ALLOWED = 0  # address of a mask's bits; 0: all tokens
LATE_CHANGES = (
    1  # where changes begin that come after penalties, three words as those from CHANGED_IDS on
)

NONE_LEFT, NO_NUMBERS, NOT_DONE = -1, -2, -3

# --- kinds of cuts ---

SCALE, TOP_K, TOP_P, MIN_P = range(4)

# --- the scratch memory of a thread: parts of one row of floats each, rounded up ---

BLOCK = 64  # logits whose maximum is one entry of PEAKS
SCALED, WEIGHTS, IDS, LOGITS, IDS_2, LOGITS_2, VALUES, PLACES, PEAKS = range(9)
SAVED, REPEATED, UNPENALISED, SAVED_LATE, MASKED, NUM_PARTS = range(9, 15)  # before the draw
COUNTS = WEIGHTS  # before the draw too


def part_bytes(vocab_size: int) -> int:
    return -(-vocab_size // BLOCK) * BLOCK * 4
