"""What comes back: the events of a request, in the order in which they are sent."""

from typing import Literal

from msgspec import Struct

from segue.types.requests import InfillMethod
from segue.types.scores import PromptScores, TokenScore


class Share(Struct, frozen=True, array_like=True):
    """How many of the given tokens fit."""

    kept: int
    given: int


class Split(Struct, frozen=True, array_like=True):
    """How the context was divided between the parts of an infill prompt. Ranked infill has no suffix in its prompt."""

    prefix: Share
    suffix: Share
    extra: Share  # the snippets of other files

    @property
    def num_dropped(self) -> int:
        return sum(share.given - share.kept for share in (self.prefix, self.suffix, self.extra))


class Prompted(Struct, frozen=True, tag=True, array_like=True):
    """A prompt was read completely. Sent once per prompt, before the first Delta of its choices."""

    prompt: int
    tokens: tuple[int, ...]
    num_cached: int
    text: str | None = None  # with echo
    scores: PromptScores | None = None  # with prompt_logprobs, one per token
    num_dropped: int = 0  # tokens of prompt, suffix and snippets that did not fit beside the answer
    prompt_s: float = 0.0  # seconds since its first token was computed
    infill: InfillMethod | None = None
    split: Split | None = None  # of an infill request
    ignored: tuple[str, ...] = ()  # what of the constraint has no effect, where that was allowed
    preserved: tuple[
        tuple[str, int], ...
    ] = ()  # those of the request that are one token, and which


class Progress(Struct, frozen=True, tag=True, array_like=True):
    """How much of a prompt was read, with report_progress. The last one says: all of it."""

    prompt: int
    num_read: int
    num_tokens: int
    num_cached: int
    prompt_s: float


class Searching(Struct, frozen=True, tag=True, array_like=True):
    """The progress of ranked infill, which sends no text until its search has ended."""

    prompt: int
    num_drawn: int  # tokens of its candidates
    num_scored: int  # cuts after which the suffix was scored


class Delta(Struct, frozen=True, tag=True, array_like=True):
    choice: int
    text: str
    tokens: tuple[int, ...]
    scores: tuple[TokenScore, ...] | None = None
    decode_s: float = 0.0  # seconds since its first token was sent


Reason = Literal["stop", "length", "error"]
Cause = Literal[
    "eos",
    "stop_text",
    "stop_token",
    "max_tokens",
    "context",
    "indent",
    "time",
    "repetition",
    "constraint",  # the constraint is met, and nothing may follow
    "dead_end",  # the constraint, or bans together with it, allow no token; it is not met
]


class Finished(Struct, frozen=True, tag=True, array_like=True):
    """One choice is complete. `cause`: the exact reason; `stop`: the string or token id that matched."""

    choice: int
    reason: Reason
    cause: Cause
    num_tokens: int
    stop: str | int | None = None
    prompt_s: float = 0.0  # seconds from its first computed prompt token to its first output token
    decode_s: float = 0.0  # seconds from its first output token to its last
    num_dropped: int = 0  # tokens of prompt and answer that left the context for more room


class Usage(Struct, frozen=True, array_like=True):
    prompt_tokens: int  # each prompt counts once, whatever n is
    completion_tokens: int  # all generated tokens, also of candidates that best_of discarded
    cached_tokens: int  # prompt tokens that came from the prefix cache


class Done(Struct, frozen=True, tag=True, array_like=True):
    """The request is over, and every choice is Finished. The last event, unless the request Failed."""

    usage: Usage
    seed: int  # the seed that was used: the caller's, or a random one


class Failed(Struct, frozen=True, tag=True, array_like=True):
    """The request ended without a full answer. The last event."""

    code: str  # the code of a class in errors.py
    message: str
    param: str | None = None
    retry_after_s: float | None = None
    details: dict[str, int] = {}  # numbers that clients expect with this code


Event = Progress | Prompted | Searching | Delta | Finished | Done | Failed
LAST = (Done, Failed)  # the kinds that end a request
