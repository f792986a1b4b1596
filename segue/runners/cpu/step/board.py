"""The words that a step's threads share: what stands where. Numbers only, so that kernels and Python read one list.

Python fills the board before a step; kernels get its address and a thread's number and nothing else.
"""

WORD = 8  # bytes

(
    THREADS,  # that take part in this step
    BARRIER_BASE,  # arrivals before this step
    PROGRAM,  # address of the instructions
    NUM_PHASES,
    COUNTERS,  # address of one line for each phase: the next piece of its work
    ROWS,  # tokens of this step
    WANTED,  # how many of them want logits
    TOKENS,  # address of the rows' token ids
    POSITIONS,  # address of the rows' positions
    TABLES,  # address of the rows' addresses of block tables
    WANTED_ROWS,  # address of the numbers of the rows that want logits
    ITEMS,  # address of pieces of attention: (first row, rows)
    NUM_ITEMS,
    IS_PRIVATE,  # few rows: every thread norms all of them, for itself
    IS_FUSED,  # no sequence has rows beyond one item: keys are stored where they are attended to
    WIDTH,  # of the residual
    RESIDUAL,  # f32 [rows][width]; as are the two below, private to a thread in a private step
    INPUT_FLOATS,  # what a product takes: normed rows in f32
    INPUT_BYTES,  # the same rounded to 8 bits
    INPUT_SCALES,
    PRIVATE_RESIDUAL,  # bytes from one thread's part to the next
    PRIVATE_FLOATS,
    PRIVATE_BYTES,
    PRIVATE_SCALES,
    HEADS_FLOATS,  # what attention gives, as the three above
    HEADS_BYTES,
    HEADS_SCALES,
    HIDDEN_FLOATS,  # what the feed-forward's activation gives
    HIDDEN_BYTES,
    HIDDEN_SCALES,
    EXPERT_FLOATS,  # what experts take: a row for each expert of each row, those of an expert side by side
    EXPERT_BYTES,
    EXPERT_SCALES,
    QUERIES,  # f32 [key head][rows][heads that share it][size]
    SCRATCH,  # of each thread
    SCRATCH_BYTES,
    LOGITS,
    NUM_NAMED,
) = range(38)

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

# Words of an adapter's pair for one matrix; there is a table of these, by adapter and number of the matrix.
LORA_A, LORA_B, LORA_RANK, LORA_SCALE, LORA_COLUMNS = range(5)
LORA_WORDS = 8
# Words of a mix, which says what adapters a row has: behind their number, of each its table, its scale, and where
# its ranks begin.
MIX_TABLE, MIX_SCALE, MIX_PLACE = range(3)
MIX_WORDS = 3

BARRIER = 64  # arrivals so far; on a line of its own
MAILBOXES = (
    80  # of each thread: the number of the step it shall take part in, and whether it sleeps
)
MAILBOX_WORDS = 16
MAX_THREADS = 256
NUM_WORDS = MAILBOXES + MAILBOX_WORDS * MAX_THREADS

# --- instructions: one phase each ---

INSTRUCTION_WORDS = 32
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
) = range(14)
ADAPT, DRAW = 32, 33

# Where the norm's rows come from.
FROM_EMBEDDING, FROM_SUM, FROM_WANTED = range(3)

# Kinds of norms.
RMS_NORM, LAYER_NORM, NO_NORM = range(3)

# Activations of the feed-forward.
SILU, GELU, SQUARED_RELU, CLAMPED_SILU = range(4)

# Experts' shares: of all experts' softmax, the same made 1 together, or of the chosen ones' softmax.
SOFTMAX, RENORMALISED, OF_THE_CHOSEN = range(3)
