"""What to say of a path that is not served: the one that was meant, if a usual mistake leads there."""

import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches

CHAT = "Chat is not served here, only completions"
VECTORS = "Embeddings are not served here, only completions"
RANKS = "Ranking is not served here, only completions"
DECISIONS = "Questions with answers to choose from are not served here, only completions"
ELSEWHERE = "Completions have another path here"
STORE = "Models are chosen when the server is started, by segue serve"

# How paths of the six systems end that have no counterpart here.
UNSERVED: dict[str, str] = {
    "/v1/chat/completions": CHAT,
    "/chat/completions": CHAT,
    "/v1/messages": CHAT,
    "/v1/responses": CHAT,
    "/api/chat": CHAT,
    "/v1/embeddings": VECTORS,
    "/embeddings": VECTORS,
    "/embedding": VECTORS,
    "/api/embeddings": VECTORS,
    "/api/embed": VECTORS,
    "/v1/rerank": RANKS,
    "/rerank": RANKS,
    "/v1/reranking": RANKS,
    "/reranking": RANKS,
    "/v1/decisions": DECISIONS,
    "/v1/systemone": DECISIONS,
    "/generate": ELSEWHERE,
    "/generate_stream": ELSEWHERE,
    "/complete": ELSEWHERE,
    "/api/pull": STORE,
    "/api/push": STORE,
    "/api/create": STORE,
    "/api/copy": STORE,
    "/api/delete": STORE,
}
_NEAR = 0.85  # one letter wrong in seven
_MOST_CHARS = 64
# Where a base URL leads to.
_BELOW = ("/completions", "/v1/completions", "/generate")


def hint_of(path: str, served: Collection[str]) -> str:
    """A sentence, or nothing. It takes half a millisecond at most: whoever searches a server for holes asks for many
    paths."""
    if near := next((each for each in _respelled(path) if each in served), ""):
        return f"Is {near} meant?"
    within = next((each for each in served if _without_prefix(each) == path), "")
    if path and within and path not in UNSERVED:
        return f"Is {within} meant?"
    if end := max((each for each in UNSERVED if path.endswith(each)), key=len, default=""):
        sentence = UNSERVED[end]
        instead = "/api/generate" if end.startswith("/api/") else "/v1/completions"
        places = (path.removesuffix(end) + instead, instead)
        place = next((each for each in places if each in served), "")
        is_told = sentence is not STORE and place
        return f"{sentence}: POST {place}." if is_told else f"{sentence}."
    base = path.rstrip("/")
    if inside := next((base + each for each in _BELOW if base and base + each in served), ""):
        return f"This is a base URL: clients add the rest, as in POST {inside}."
    close = get_close_matches(path, served, 1, _NEAR) if len(path) <= _MOST_CHARS else []
    return f"Is {close[0]} meant?" if close and "{" not in close[0] else ""


def _without_prefix(path: str) -> str:
    """As the system itself has the path; nothing where a part of it is any."""
    _, slash, own = path.removeprefix("/").partition("/")
    return slash + own if own and "{" not in own else ""


def _respelled(path: str) -> Iterator[str]:
    """The path without usual mistakes: capitals, slashes too much, a singular, /v1 twice, missing or too much."""
    plain = re.sub(r"(/v1)+", "/v1", re.sub("/+", "/", path.lower()).rstrip("/"))
    yield from (plain, f"{plain}s")
    folder, _, name = plain.rpartition("/")
    yield f"{folder}/v1/{name}"
    yield f"{folder.removesuffix('/v1')}/{name}"
