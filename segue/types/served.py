"""What became of the requests of a model, as a server counts them."""

from collections.abc import Mapping

from msgspec import Struct


class Buckets(Struct, frozen=True):
    """A histogram. `counts` are of each bucket alone, and the last of what is above every end."""

    ends: tuple[float, ...] = ()
    counts: tuple[float, ...] = (0.0,)
    sum: float = 0.0


class Served(Struct, frozen=True, kw_only=True):
    """Of one model, since the server started. Seconds are of requests or choices that had their first token."""

    reasons: Mapping[str, float] = {}  # how many choices ended for it
    first_s: Buckets = Buckets()  # from a request to its first token
    gap_s: Buckets = Buckets()  # from a token of a choice to the next
    whole_s: Buckets = Buckets()  # from a request to the end of its answer
    queue_s: Buckets = Buckets()  # from a request to the first computed token of its prompt
    prompt_s: Buckets = Buckets()  # from there to the first token of a choice
    decode_s: Buckets = Buckets()  # from the first token of a choice to its last
    inference_s: Buckets = Buckets()  # both together
    token_s: Buckets = Buckets()  # the mean time between the tokens of a choice
    prompt_tokens: Buckets = Buckets()  # of each prompt
    answer_tokens: Buckets = Buckets()  # of each choice
    longest_tokens: Buckets = Buckets()  # of the longest choice of a request
