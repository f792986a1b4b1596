"""Every bound on what a request may ask for or make the server keep, each with its reason.

Bounds that an operator may want to move are defaults of flags (config.py, server/admission/request_caps.py); those here
hold whatever the flags say.
"""

# --- one connection (server/connection.py) --------------------------------------------------------

MAX_URL_BYTES = 8 << 10  # as nginx; no path or query of ours comes near it
MAX_HEAD_BYTES = 64 << 10  # large cookies of proxies fit; little is kept of a head that never ends
MAX_HEADERS = 128  # each is an object, and every check walks over them
HEAD_TIMEOUT_S = 30.0  # for a head to be complete: slowloris connections end

# --- answers (server/feed.py) ---------------------------------------------------------------------

MAX_BACKLOG = 100_000  # scores and tokens kept for a reader that does not take them: some 20 MB
