"""One candidate text: its tokens, where they are in the KV, and how it ends.

Few facts are stored, the rest is derived:

    tokens      [ prompt ............ | output ...... ]
    computed     -------------------->                   tokens whose KV is in the slot
    pending                           <-------------->   what the next spans compute; 1 token while decoding

If it has a `window` (window.py), `shift` takes tokens out of `tokens` when they fill that: `num_dropped` so far. So
`tokens` is always what its slot holds and is to hold. What looks at the whole text has a history of its own (penalties,
DRY, the constraint, its output).
"""

from typing import NamedTuple

from segue.engine.constraints.guide import Guide
from segue.engine.request.draft import Drafter
from segue.engine.request.output import Output, Shown
from segue.engine.request.repetition import RepetitionWatch
from segue.engine.request.window import Window
from segue.engine.sampling.sampler import Sampler
from segue.engine.sampling.scores import Scores, empty, score
from segue.engine.seam import Logits, Mix
from segue.types import Cause, TokenScore


class SequenceKey(NamedTuple):
    """Which text this is: one candidate of one prompt of a request."""

    request_id: str
    prompt_index: int
    candidate: int


class KvKey(NamedTuple):
    """What its KV depends on besides tokens, and who may share it."""

    salt: str | None  # of the prefix cache; None: it is neither read nor filled
    adapters: Mix


def salt_of(adapters: Mix, given: str) -> str:
    """The salt of the prefix cache, of prompts that may share what they compute. `given`: the client's own.

    With adapters it is of them and their scales too: what was computed with others is another prefix. They come first,
    and the client's own salt last: whatever is in that, no two kinds of salt are the same.
    """
    mix = ",".join(f"{place}:{scale!r}" for place, scale in adapters)
    return f"{mix}\0{given}"


class Limits(NamedTuple):
    """What ends it besides its own tokens and text."""

    max_tokens: int
    time_limit_s: float | None = None
    repetition: RepetitionWatch | None = None
    window: Window | None = None  # None: it ends where the context is full, by `max_tokens`


class PromptScoring(NamedTuple):
    """Which log-probabilities of prompt tokens are wanted."""

    num_top: int | None = None  # alternatives per token; None: the prompt is not scored
    start: int = 1  # the first token that gets a score


class Sequence:
    def __init__(
        self,
        key: SequenceKey,
        prompt: list[int],
        sampler: Sampler,
        output: Output,
        *,
        limits: Limits,
        guide: Guide | None = None,
        scoring: PromptScoring,
        watched: tuple[int, ...] = (),
        kv: KvKey,
        leader: "Sequence | None",
        is_probe: bool = False,
    ) -> None:
        self.request_id, self.prompt_index, self.candidate = key
        self.tokens = list(prompt)
        self.num_prompt = len(prompt)
        self.num_dropped = 0  # of `tokens`, which are no longer there
        self._num_dropped_since = 0  # of these, since the last token was accepted
        self.num_dropped_in_vain = 0  # of these, for a token that did not come
        self.max_tokens, self.time_limit_s, self.repetition, self.window = limits
        self.sampler = sampler
        self.output = output
        self.salt, self.adapters = kv
        self.leader = leader  # the candidate that computes the prompt for all candidates
        self.ends_anywhere = False  # the time limit ends it at once, not at the next line break
        self.guide = guide  # its state in the constraint
        self.num_top, self.score_from = scoring
        self.scores: Scores | None = None if self.num_top is None else empty(self.num_top)
        self.watched = watched  # tokens whose log-probability is recorded at every position
        self.chances: list[list[float | None]] = []  # None: not known, but not above the bound
        self.bounds: list[float] = []  # per position, where not all are known
        self.num_next = 0  # alternatives to score for the token after the last one
        self.following: Scores | None = None  # these, once computed
        self.num_followers = 0  # sequences that wait for its prompt
        if leader is not None:
            leader.num_followers += 1
        self.is_probe = is_probe  # computed for its scores only: not worth keeping in the cache
        mate: Sequence | None = None if is_probe else leader
        self.drafter: Drafter = Drafter(len(prompt), mate.drafter if mate else None)
        self.slot: int | None = None
        self.computed = 0
        self.checkpoint_at = 0  # a span ends there, and a copy of the slot is kept; 0: nowhere
        self.num_cached = 0
        self.num_undrawn = 0  # draws that the runner left to the sampler
        self.sum_logprob = 0.0
        self.ending: Cause | None = (
            None  # why it will end; None: it goes on, or its last token said it
        )
        self.cause: Cause | None = None  # why it ended; None while it runs
        self.stop: str | int | None = None
        self.prompt_started_s: float | None = None
        self.first_token_s: float | None = None
        self.last_token_s: float = 0.0
        self.has_read_prompt = False

    @property
    def num_output(self) -> int:
        return self.num_dropped + len(self.tokens) - self.num_prompt

    @property
    def num_left(self) -> int:
        """How many more tokens it can get before it ends, or must drop some."""
        left = self.max_tokens - self.num_output
        return left if self.window is None else min(left, self.window.size - len(self.tokens))

    @property
    def is_full(self) -> bool:
        """Whether it must drop tokens before it can go on."""
        return self.window is not None and self.has_draws and self.num_left == 0

    @property
    def num_pending(self) -> int:
        return len(self.tokens) - self.computed

    @property
    def has_draws(self) -> bool:
        """Whether it gets more tokens."""
        return self.max_tokens > 0 and self.ending is None

    @property
    def needs_last_row(self) -> bool:
        """Whether anything is made of the logits after its last token."""
        return self.max_tokens > 0 or bool(self.watched) or self.num_next > 0

    @property
    def is_decoding(self) -> bool:
        return self.has_read_prompt and self.num_pending == 1

    @property
    def awaits_mask(self) -> bool:
        """Whether the sequence must wait because the mask of its constraint is still being computed."""
        return self.guide is not None and not self.guide.is_ready

    @property
    def forced(self) -> tuple[int, ...]:
        """The next tokens, as far as its constraint allows no others and that is known."""
        return () if self.guide is None else self.guide.forced

    @property
    def is_scoring(self) -> bool:
        """Whether prompt rows are still to be scored: until every token from `score_from` on has a score."""
        scores = self.scores
        return scores is not None and len(scores) < self.num_prompt - self.score_from

    @property
    def is_scoring_all(self) -> bool:
        """Whether the whole prompt is scored: only then are its scores kept in the prefix cache."""
        return self.is_scoring and self.score_from == 1

    def score_prompt(self, end: int, rows: Logits) -> Scores:
        """Score the prompt tokens that follow these rows, and return the new scores.

        The rows are the last ones of a span that ends before position `end`.
        """
        if self.scores is None or self.num_top is None or not self.is_scoring:
            return empty(0)
        first = end - len(rows) + 1
        targets = self.tokens[first : min(end + 1, self.num_prompt)]
        added = score(rows[: len(targets)], targets, self.num_top)
        self.scores = self.scores.joined(added)
        return added

    def scores_for(self, other: "Sequence") -> bool:
        """Whether its prompt scores include all that the other sequence needs."""
        return (
            self.num_top is not None and other.num_top is not None and self.num_top >= other.num_top
        )

    @property
    def is_at_fork(self) -> bool:
        """Whether its slot holds all but the last prompt token: followers fork it and compute that token themselves."""
        return self.slot is not None and self.computed == self.num_prompt - 1

    @property
    def prompt_s(self) -> float:
        """Seconds from the first computed prompt token to the first output token."""
        end = self.first_token_s or self.last_token_s
        return max(0.0, end - (self.prompt_started_s or end))

    @property
    def decode_s(self) -> float:
        """Seconds from the first output token to the last."""
        first = self.first_token_s
        return 0.0 if first is None else self.last_token_s - first

    def accept(
        self, token: int, piece: bytes, drawn: TokenScore | None, cause: Cause | None, now: float
    ) -> None:
        """Append a drawn token, and set `cause` if it was the last. `cause`: this token ends the text by itself."""
        if self.first_token_s is None:
            self.first_token_s = now
        self.last_token_s = now
        self._num_dropped_since = 0
        self.tokens.append(token)
        self.sampler.push(token)
        if drawn is not None and drawn.logprob is not None:
            self.sum_logprob += drawn.logprob
        self.output.push(token, piece, drawn)
        repeats = self.repetition is not None and self.repetition.push(token)
        if cause is not None:
            self.cause, self.stop = cause, token if cause == "stop_token" else None
        elif self.output.stopped_by is not None:
            self.cause, self.stop = "stop_text", self.output.stopped_by
        elif self.output.is_dedented:
            self.cause = "indent"
        elif self.guide is not None and self.guide.accept(token):
            self.cause = "constraint"
        elif self.num_output >= self.max_tokens:
            self._end_by("max_tokens")
        elif self.time_limit_s is not None and self._is_past(self.time_limit_s, piece):
            self._end_by("time")
        elif repeats:
            self._end_by("repetition")

    def _end_by(self, cause: Cause) -> None:
        self.ending = cause
        self.end()

    def end(self) -> None:
        """End by what `ending` says, or by the constraint if that is over. Whether it is may take a mask to tell.

        To be called again then, when the mask has come: nobody else waits for it.
        """
        if self.guide is None or self.guide.knows_end:
            is_over = self.guide is not None and self.guide.is_over
            self.cause = "constraint" if is_over else self.ending
            self.end_before_shift()

    def end_before_shift(self) -> None:
        """It ended with its last token, which was told late: no room was needed for another."""
        self.num_dropped_in_vain = self._num_dropped_since

    def flush(self, keeps_half: bool = True) -> Shown | None:
        """What of its text was held back, once it has ended.

        Half a character at the end counts only now, as U+FFFD. That may complete a stop string, or be the first of a
        line that is indented too little: such an end comes before the one that is known.
        """
        output, was_cut = self.output, self.output.is_cut
        rest = output.flush(keeps_half)
        if output.is_cut and not was_cut:
            self.cause, self.stop = "indent", None
            if output.stopped_by is not None:
                self.cause, self.stop = "stop_text", output.stopped_by
        return rest

    def _is_past(self, limit_s: float, piece: bytes) -> bool:
        """Whether the time limit ends it. In a search it counts from the leader's first token, else from its own."""
        if not self.ends_anywhere and b"\n" not in piece:
            return False
        first = self.leader if self.ends_anywhere and self.leader is not None else self
        begun = self.last_token_s if first.first_token_s is None else first.first_token_s
        return self.last_token_s - begun > limit_s

    def shift(self, num_held: int) -> None:
        """Drop tokens, since they fill the window. Of the first ones its slot holds `num_held` from now on."""
        if self.window is None:
            raise RuntimeError("a sequence without a window drops no tokens")
        _, kept, dropped = self.window
        del self.tokens[kept : kept + dropped]
        self.num_dropped += dropped
        self._num_dropped_since = dropped
        self.computed, self.checkpoint_at = num_held, 0
        self.num_top = self.scores = None  # of the prompt, which is not what the slot holds
        self.drafter.forget(len(self.tokens))

    def rewind(self) -> None:
        """Reset after preemption: the KV is lost and is computed again from the tokens, which stay."""
        self.slot = None
        self.computed = self.checkpoint_at = 0
        if self.is_scoring and self.num_top is not None:
            self.scores = empty(self.num_top)
