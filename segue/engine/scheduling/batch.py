"""The batch of one step, and the counters of all steps so far."""

from collections import abc
from dataclasses import dataclass, field

from segue.engine.request.sequence import Sequence
from segue.engine.seam import Draw, Logits, Span
from segue.errors import EngineFault

DrawnTokens = abc.Sequence[int | None]  # one per draw of a batch; None: left to the sampler
DrawnFeedback = abc.Sequence[float]  # one per draw of a batch, or empty: see seam.Step

# The places of a draft that are told apart: a constraint may force any number of tokens.
_NUM_PLACES = 16


@dataclass
class Batch:
    spans: list[Span] = field(default_factory=list)
    sequences: list[Sequence] = field(default_factory=list)
    num_rows: int = 0
    num_prompt_rows: int = 0
    num_cells: int = 0  # KV cells that the spans will take
    num_drafted: int = 0  # rows of drafts from texts
    has_proposals: bool = False  # the draft model ran for it
    is_catching_up: bool = False  # and had much to read
    num_tokens: int = 0  # that came of it, once it is committed
    is_ahead: bool = False  # begun while the step before was open
    draws: dict[Sequence, Draw] = field(default_factory=dict)  # in order, if the runner makes all
    void: set[Sequence] = field(default_factory=set)  # whose row is not to be read

    def check(self, logits: Logits, vocab_size: int) -> None:
        """Raise unless the logits have one row per requested row and the width of the vocabulary.

        With another shape, rows would be assigned to the wrong sequences.
        """
        wanted = (sum([span.num_logits for span in self.spans]), vocab_size)
        if logits.shape != wanted:
            raise EngineFault(f"the runner gave logits of shape {logits.shape}, not {wanted}")


@dataclass(kw_only=True)
class Counts:
    steps: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    prefilled_tokens: int = 0
    completion_tokens: int = 0
    preemptions: int = 0
    finished: int = 0
    cancelled: int = 0
    failed: int = 0
    draft_tokens: int = 0
    draft_accepted: int = 0
    draft_accepted_at: tuple[int, ...] = ()
    drafts: int = 0
    stepped: int = 0
    longest: int = 0
    prompt_s: float = 0.0
    decode_s: float = 0.0

    def drafted(self, num_tokens: int, num_accepted: int) -> None:
        """A draft of so many tokens was computed, of which the first so many were right."""
        self.drafts += 1
        self.draft_tokens += num_tokens
        self.draft_accepted += num_accepted
        num_places = min(num_accepted, _NUM_PLACES)
        known = self.draft_accepted_at
        known += (0,) * (num_places - len(known))
        self.draft_accepted_at = (*(n + 1 for n in known[:num_places]), *known[num_places:])
