"""The board, the words that a step's threads share: the index of each word. Kernels and Python read the same list.

Python fills the board before a step. Kernels get only the address of the board and the number of the thread. A team of
threads has words of its own, for all its steps.
"""

(
    TEAM,  # address of the team's words
    NUMBER,  # of this step, counted from 1
    THREADS,  # how many may take part in this step
    POSTED_TO,  # how many of them were sent it; the caller's thread, if it takes part, was not
    PROGRAM,  # address of the instructions
    NUM_PHASES,
    COUNTERS,  # address of one cache line per phase; its words are below
    ROWS,  # tokens of this step
    WANTED,  # how many of them want logits
    TOKENS,  # address of the rows' token ids; -1 - i: what draw i of the step before has drawn
    DRAWN,  # address of that step's first drawn token; the others follow a record apart
    POSITIONS,  # address of the rows' positions
    TABLES,  # address of the rows' addresses of block tables
    WANTED_ROWS,  # address of the numbers of the rows that want logits
    ITEMS,  # address of pieces of attention: (first row, rows)
    NUM_ITEMS,
    IS_FUSED,  # no sequence has rows beyond one item: keys are stored where they are attended to
    WIDTH,  # of the residual
    RESIDUAL,  # f32 [rows][width]
    INPUT_FLOATS,  # what a product takes: normed rows in f32
    INPUT_BYTES,  # the same rounded to 8 bits
    INPUT_SCALES,
    HEADS_FLOATS,  # the output of attention, in the same three forms as the input
    HEADS_BYTES,
    HEADS_SCALES,
    HIDDEN_FLOATS,  # the output of the feed-forward's activation
    HIDDEN_BYTES,
    HIDDEN_SCALES,
    EXPERT_FLOATS,  # what experts take: a row for each expert of each row, those of an expert side by side
    EXPERT_BYTES,
    EXPERT_SCALES,
    QUERIES,  # f32 [key head][rows][heads that share it][size]
    SCRATCH,  # memory of each thread
    SCRATCH_BYTES,
    NUM_NAMED,
) = range(35)

# Of LoRA adapters; see adapters.py.
(
    ADAPTED,  # how many mixes of adapters this step's rows have; 0: no row has any
    MIXES,  # address of the rows' addresses of mixes, 0 for a row without adapters
    WANTED_MIXES,  # the same of the rows that want logits
    LOW_RANK,  # f32 [rows][matrices of a phase][ranks of all adapters]
    LOW_RANK_ROW,  # floats of a row
    LOW_RANK_STRIDE,  # of a matrix
    TILE_OUTPUTS,  # of a product's tile
) = range(50, 57)

# Of latent attention: what matrices of heads take, [head][rows][columns], in the three forms of an input.
LATENT_FLOATS, LATENT_BYTES, LATENT_SCALES = range(40, 43)

# Of the MTP layer; see rare/drafts.py.
(
    HIDDEN_BEFORE,  # address of the rows' addresses of what the model made of the token before; 0: there is none
    HANDED_ON,  # address of the rows' addresses to which what it makes of theirs is copied; 0: nowhere
) = range(44, 46)

# Of layers with a state; see recurrent/.
(
    SPANS,  # address of the spans of rows that follow each other; their words are below
    NUM_SPANS,
) = range(57, 59)
# SPAN_PENDING: how many changes of rows before lie beside the state; SPAN_LEFT: how many do afterwards, the last ones.
SPAN_FIRST, SPAN_ROWS, SPAN_STATE, SPAN_PENDING, SPAN_LEFT = range(5)
SPAN_WORDS = 5
FRESH = -1  # instead of a number of changes: the state is to be cleared first
MOST_PENDING = 8  # changes beside a state: of a token that was drawn, and of the longest draft

# Words of an adapter's pair for one matrix; there is a table of these, by adapter and number of the matrix.
LORA_A, LORA_B, LORA_RANK, LORA_SCALE, LORA_COLUMNS = range(5)
LORA_WORDS = 8
# Words of a mix, the adapters of a row: first their number, then for each adapter its table, its scale, and where its
# ranks begin.
MIX_TABLE, MIX_SCALE, MIX_PLACE = range(3)
MIX_WORDS = 3

# How many of the threads that were sent the step have left it; on a cache line of its own. Then the board is free.
LEFT = 64

# Of RWKV: what its products take, each in the three forms of an input, one after the other. SHIFTED: rows mixed with
# those before them; PAIRED: what pairs of matrices have between them.
MOST_SHIFTED, MOST_PAIRED = 6, 5
SHIFTED = 72
PAIRED = SHIFTED + 3 * MOST_SHIFTED
NUM_WORDS = PAIRED + 3 * MOST_PAIRED + 2

# --- the team's words ---

DONE = 0  # number of the last step that has ended
# One mailbox per thread: how many steps were posted to it, whether the thread sleeps, whether Python must wake it for
# the step posted last, and the boards of the last two steps by parity. 0 as a board: the thread ends.
MAILBOXES = 32
POSTED, ASLEEP, TO_WAKE, BOARDS = range(4)
MAILBOX_WORDS = 16
MAX_THREADS = 256
NUM_TEAM_WORDS = MAILBOXES + MAILBOX_WORDS * MAX_THREADS

# --- instructions: one phase each ---

INSTRUCTION_WORDS = 40
LIMIT = 17  # a word of GATED and EXPERTS: of a bounded or limited silu

# Words of a phase: how many pieces of its work were taken (work sharing), and how many are done.
TAKEN, FINISHED = range(2)
ACTIVE_EXPERTS = 2  # of SORT
NAPS = 3  # of DRAW: how often threads slept because a mask was not told yet
COUNTER_WORDS = 8

(
    NORM,
    PRODUCT,
    WHOLE_NORMS,
    HEADS,
    ATTEND,
    QUANTISE,
    GATED,
    ROUTE,
    SORT,
    GATHER,
    EXPERTS,
    EXPERTS_DOWN,
    COMBINE,
    LOGITS,
    LAYER_INPUTS,
    LAYER_GATE,
    CONVOLVE,
    DELTA,
    SCAN,
    MAMBA_GATE,
    SHIFT,
    BEND,
    WKV,
    WKV6,
) = range(24)
NARROW, SELECT, GATE_ROWS, PART = range(28, 32)
LATENT_KEYS, LATENT_QUERIES, LATENT_PRODUCTS, LATENT_ATTEND = range(24, 28)
ADAPT, DRAW = 32, 33
NOTHING = 34  # a phase that is left out
CLAMP = 35
STORE = 36  # as HEADS, in fused steps too
FIRST_RARE = 40  # from here on: phases that are compiled apart, see rare/
SPREAD, PREDICT, CORRECT, PART_STREAMS, MERGE_STREAMS, SPARSE = range(FIRST_RARE, 46)
PAIR, HAND_ON = range(46, 48)

# Where the norm's rows come from.
FROM_EMBEDDING, FROM_SUM, FROM_WANTED = range(3)

# Kinds of norms.
RMS_NORM, LAYER_NORM, NO_NORM = range(3)

# Activations of the feed-forward.
SILU, GELU, SQUARED_RELU, CLAMPED_SILU, XIELU, RELU, BOUNDED_SILU, LIMITED_SILU = range(8)

# Gates of attention's output: a number for each dimension, or one for each head.
SIGMOIDS, ONE_SIGMOID, SOFTPLUSES, ONE_SOFTPLUS = range(4)

# What RWKV does to what pairs of matrices have between them.
PLAIN, TANH, LOGISTIC = range(3)

# Shares of experts: softmax over all experts, the same renormalised to 1, softmax over the chosen experts, or each
# expert's sigmoid, as it is or renormalised to 1. SIGMOID_BY_SCORE: they are chosen by their scores.
SOFTMAX, RENORMALISED, OF_THE_CHOSEN, SIGMOID, SIGMOID_RENORMALISED, SIGMOID_BY_SCORE = range(6)
