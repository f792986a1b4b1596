"""The layout of a draw's record, its input and its result, for kernels and Python alike."""

# --- a record: words of 8 bytes ---

RECORD_WORDS = 96
ROW = 0  # row of the logits
POINT = 1  # a double in [0, 1)
EARLY = 2  # kinds of the adjustments that come before all cuts, in order; NO_CUT after them
MOST_EARLY = 3
NUM_CUTS = 5  # without these
CUTS = 6  # where the first cut begins
CUT_WORDS = 5  # kind, a double, a count; of a dynamic temperature, two doubles more
TOKEN = 61  # what was drawn, or one of the numbers below
# What to add to the row before: addresses of token ids (i64) and of floats, and how many. The row is restored later.
CHANGED_IDS, ADDED, NUM_CHANGES = range(62, 65)
# The same for the adjustment LOGIT_BIAS.
BIASED_IDS, BIASES, NUM_BIASES = range(65, 68)
# Tokens that occurred, whose logits are penalised.
(
    SEEN,  # address of the first one (i64)
    NUM_SEEN,
    NUM_UNCOUNTED,  # so many of the first have the repetition penalty only
    LAST,  # address of one more, where negative numbers mean token 0; 0: there is none
    FACTORS,  # three floats: repetition, presence, frequency; then an i32: 1 if repetition acts after the others
) = range(68, 73)
# What is told while the draw is open: Python writes where the threads are told, and they write what they were told.
AWAITED = 74  # address of a word: 0 until it is told, then the address of what is told, or -1: draw nothing
TOLD = 75  # what the word was when the draw began, -1 if it was not told in time
# 0 in both: nothing is.
# A list of allowed tokens to draw from: address of the first one (i64), and how many. 0 in both: there is none.
ONLY, NUM_ONLY = range(76, 78)
NOTHING = 78  # seven words that stay 0: what a draw is told that waits for nothing
# Mirostat or adaptive-p. Its feedback is mu, or its sum: a number that each draw changes for the next.
(
    FEEDBACK_KIND,  # one of the kinds below; NO_FEEDBACK: the other words mean nothing
    TARGET,  # a double: tau, or the target
    RATE,  # a double: eta, or the decay
    FEEDBACK_AT,  # address of what this draw takes: FEEDBACK_BEFORE, or FEEDBACK_AFTER in a record of the step before
    FEEDBACK_BEFORE,  # a double
    FEEDBACK_AFTER,  # a double, of this draw. Only kernels write it: the step after may still read it
) = range(85, 91)
# What tokens add to a text, for infill. 0 in all: there is none.
(
    TEXT_STARTS,  # address of where each begins (i64), one more than tokens
    TEXTS,  # address of their bytes
    ARE_ENDS,  # address of a byte for each token, 1 for an end
    END,  # the one to draw, -1: none
) = range(91, 95)
TOTAL = 95  # a double, of adaptive-p: what its sum is divided by

# --- what is told: seven words of 8 bytes ---

LATE_ALLOWED = 0  # address of a mask's bits; 0: all tokens
# Where bans begin, and what dry adds: three words each, as those from CHANGED_IDS on.
LATE_CHANGES, LATE_COSTS = 1, 4

NONE_LEFT, NO_NUMBERS, NOT_DONE = -1, -2, -3
ALL_KEPT = -4  # of a cut: it leaves all as they are

# --- kinds of cuts ---

SCALE, DYNAMIC_SCALE, TOP_K, TOP_P, MIN_P, TYPICAL_P, TOP_N_SIGMA, XTC = range(8)
PENALTIES, DRY, LOGIT_BIAS, INFILL = range(8, 12)
NO_CUT = -1
FEEDBACK_CUTS = 12  # + the kind of feedback: what it does to candidates, a cut after all others

# --- kinds of feedback ---

NO_FEEDBACK, MIROSTAT_1, MIROSTAT_2, ADAPTIVE_P = range(4)

# --- the scratch memory of a thread: parts of one row of floats each, rounded up ---

BLOCK = 64  # logits whose maximum is one entry of PEAKS
SCALED, WEIGHTS, IDS, LOGITS, IDS_2, LOGITS_2, VALUES, PLACES, PEAKS = range(9)
SAVED, REPEATED, UNPENALISED, SAVED_LATE, SAVED_COSTS, SAVED_BIASES = range(9, 15)
MASKED, NUM_PARTS = range(15, 17)
COUNTS = WEIGHTS  # of tokens that occurred, while they are penalised
SCORES = PEAKS  # of a cut that orders by something else than logits: what it leaves needs no peaks
SHARES = SCALED  # of candidates, once adaptive-p has other logits for them
SCATTERED = MASKED  # candidates where their tokens are in a row, once there are fewer than a row


def part_bytes(vocab_size: int) -> int:
    return -(-vocab_size // BLOCK) * BLOCK * 4
