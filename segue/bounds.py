"""Every bound on what a request may ask for or make the server keep, each with its reason.

Bounds that an operator may want to move are defaults of flags (config.py, server/admission/request_caps.py); those here
hold whatever the flags say.
"""

# --- one connection (server/transport/connection.py) ----------------------------------------------

MAX_URL_BYTES = 8 << 10  # as nginx; no path or query of ours comes near it
MAX_HEAD_BYTES = 64 << 10  # large cookies of proxies fit; a head without an end uses little memory
MAX_HEADERS = 128  # each is an object, and every check iterates over all
HEAD_TIMEOUT_S = 30.0  # for a head to be complete: slowloris connections end
LINGER_S = 2.0  # time for a refused client that is still sending to read the answer
MAX_LINGER_BYTES = 64 << 20  # what it may send meanwhile; it is discarded

# --- bodies (server/admission/bodies.py, server/json_size.py) ---------------------------------------

MAX_BODIES_HELD = 16  # of the largest size at once, over all requests: 256 MB at the default
MAX_BODIES_SHARE = 4  # of these for one key, or one address where there are no keys
LARGE_BODY_BYTES = 64 << 10  # more is read in a thread: milliseconds that other streams would wait
MAX_JSON_VALUES = 1 << 19  # more token ids than contexts hold; decoding them takes some 50 ms
MAX_JSON_CONTAINERS = 1 << 17  # lists, objects and keys cost ten times a number; 65,536 prompts fit
MAX_JSON_DEPTH = 512  # of lists and objects; how far a decoder goes is up to the version of Python
MAX_TRANSLATED_BYTES = 1 << 20  # of a request that the page at / shows as code: read by people

# --- tokens in and out (the dialects' /tokenize and /detokenize) -------------------------------------

MAX_TOKENIZE_CHARS = 1 << 20  # the longest contexts hold less; with pieces some 22 MB of answer
MAX_DETOKENIZE_TOKENS = 1 << 18  # the same for token ids

# --- answers (server/feed.py, server/endpoints.py) ------------------------------------------------

MAX_BACKLOG = 100_000  # scores and tokens of an answer kept for a slow reader: some 20 MB
LARGE_ANSWER_ITEMS = 2000  # tokens and scores: more take milliseconds, and are rendered in a thread
LARGE_ANSWER_CHARS = 1 << 19  # of prompts, once per choice: the same
MAX_ANSWER_SCORES = 1 << 20  # tokens with their alternatives: some 30 MB of JSON, 200 MB while made

MAX_WATCHES = 64  # clients that are told what becomes of models, each on a connection that it keeps
MAX_UNREAD_CHANGES = 256  # of models, kept for one of them

# Streams that their clients may take up again: what is held of each, and for how long once it has ended.
MAX_KEPT_BYTES = 4 << 20
KEPT_STREAM_S = 300.0
MAX_KEPT_STREAMS = 32
MAX_KEPT_SHARE = 16  # of one API key
MAX_KEPT_NAME = 256

# Of what each choice tells again, over all choices: the ids of its prompt, the text around a gap, the settings in
# llama.cpp's own answers. Encoding them takes some 0.1 s.
MAX_REPEATED_CHARS = 1 << 26

# --- preparation (engine/process/preparation.py, engine/request/prepare.py) -----------------------

SMALL_PREPARATION = (
    64 << 10
)  # characters and ids: takes milliseconds, so these do not wait for large ones
# Times the context: the longest prompt that is tokenized in order to be truncated.
MAX_TRUNCATED = 16
CHARS_OF_ID = 8  # what a token id counts among characters: it takes as long to hand on

# --- fields of a request (the dialects) ---------------------------------------------------------------

MAX_INT32 = 2**31 - 1  # counts of tokens, and token ids: what the systems keep in 32 bits
MAX_INT64 = 2**63 - 1  # seeds
# For numbers without a range of their own: far beyond any use, and it cannot overflow.
MAX_NUMBER = 1e6
MIN_DIVISOR = 1e-6  # for numbers that logits are divided by, for the same reason
# Seeds are drawn below this, so that each can be sent back in every dialect. llama.cpp's has 32 bits, and means "draw
# one" by the highest.
DRAWN_SEEDS = 2**32 - 1
MAX_N = 4096  # choices; a server allows fewer (--max-n)
MAX_CANDIDATES = 2**20  # of one request, over all its prompts
MAX_LOGPROBS = 1000  # alternatives of a token; a server allows fewer (--max-logprobs)
MAX_PROMPTS = 2**16  # in one request; a server allows fewer (--max-prompts)
MAX_STOPS = 1024  # a server allows fewer (--max-stops)
MAX_STOP_CHARS = 1024  # text that may be a stop string is held back, so it must stay short
MAX_BIASES = 2**18  # as large as vocabularies are; a server allows fewer (--max-logit-bias)
MAX_BIAS = 100.0  # OpenAI's
MAX_TEXT_CHARS = 2**24  # of a text besides the prompt: more than a body holds at the default
MAX_CONSTRAINT_CHARS = 2**20  # a server allows fewer (--max-grammar-chars)
MAX_CONSTRAINT_CHOICES = 10_000  # each is compiled
MAX_TOOLS = 128  # each is part of a schema
MAX_SNIPPETS = 1024  # parts of other files around a gap
MAX_FILE_NAME_CHARS = 1024
MAX_SAMPLING_STEPS = 32  # each existing step twice
MAX_MESSAGES = 4096  # of a chat that a template is applied to

# --- generative scoring (dialects/vllm/scoring.py) ----------------------------------------------------

# Of all its prompts, each with the whole query: as many as a body holds at the default.
MAX_SCORED_CHARS = 2**24

# --- answers that go on past a full context (engine/request/window.py, engine/request/job.py) -----

MOST_CONTEXTS = 10  # of tokens in such an answer, whatever is asked for: Ollama's
LEAST_DROPPED = 16  # each time this part of a context: what stays is read again

# --- infill without FIM tokens (engine/request/ranked_job.py, counted by request_caps.py) ---------

RANKED_CANDIDATES = 8  # drawn for each prompt, unless best_of says otherwise
LONGEST_MIDDLE = 256  # tokens, where max_tokens does not say
DRAWING_SHARE = 0.5  # of a time limit; the rest is for ranking what was drawn
