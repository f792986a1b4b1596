"""Drafts that are computed, where the text itself suggests none (request/draft.py): by a draft model (model.py), or by
the model's own MTP layer (mtp.py). Token by token, each guessed as the sampler would draw it.

Drafts never change the output: a draft token is accepted only if the sampler draws the same token.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from segue.engine.constraints.guide import LookaheadGuide
from segue.engine.request.sequence import Sequence as Text
from segue.engine.scheduling.drafts.costs import Kind
from segue.engine.scheduling.drafts.payoff import Payoff
from segue.engine.seam import Capabilities, Logits, Span
from segue.errors import SegueError

log = logging.getLogger("segue.scheduler")

_REST = 16  # steps go ahead for so long where drafts are wanted, but none can be made


class Proposals(NamedTuple):
    drafts: dict[Text, list[int]]
    num_read: int  # tokens, of the sequence with the most


class Proposer(ABC):
    num_rows: int  # per step for all sequences: one for each sequence, the others for drafts

    def __init__(self, limits: Capabilities, payoff: Payoff | None) -> None:
        self._limits = limits
        self._payoff = payoff or Payoff()
        self._num_rested = _REST  # steps since it was asked and could do nothing

    def num_wanted(self, num_decoding: int) -> int:
        """How many draft tokens each of `num_decoding` sequences should get in this step; 0: drafts do not pay now."""
        if not num_decoding or not self._payoff.wants(num_decoding):
            return 0
        return max(0, self.num_rows // num_decoding - 1)

    def is_coming(self, num_decoding: int) -> bool:
        """Whether steps should stop going ahead, since there will probably be drafts after the step that is open."""
        return self._num_rested >= _REST and self.num_wanted(num_decoding) > 0

    def learn(self, num_sequences: int, kind: Kind, seconds: float, num_tokens: int) -> None:
        """Report how long a step took that had no rows of prompts and of other drafts, and how many tokens it gave."""
        self._num_rested += 1
        if num_tokens:
            self._payoff.learn(num_sequences, kind, seconds, num_tokens)

    def propose(self, wanted: Iterable[tuple[Text, int]]) -> Proposals:
        """For each sequence, up to the given number of draft tokens that may follow it."""
        self._num_rested = _REST
        drafts: dict[Text, list[int]] = {}
        limits: dict[Text, int] = {}
        scouts: dict[Text, LookaheadGuide] = {}
        spans: list[Span] = []
        for sequence, limit in wanted:
            span = self._next_span(sequence, limit, spans)
            scout = _scout(sequence) if span is not None else None
            if span is None or (sequence.guide and scout is None):
                self._num_rested = 0
                continue
            spans.append(span)
            if span.num_logits:
                drafts[sequence], limits[sequence] = [], limit
                if scout:
                    scouts[sequence] = scout
        if spans:
            self._num_rested = _REST
        ready = list(drafts)
        rows = self._decode(spans)
        while ready:
            for sequence, row in zip(ready, rows, strict=True):
                draft, limit = drafts[sequence], limits[sequence]
                if not self._extend(draft, sequence, row, limit, scouts.get(sequence)):
                    del limits[sequence]
            ready = list(limits)
            rows = self._decode([self._after(s, drafts[s]) for s in ready])
        self._end(drafts)
        return Proposals(drafts, max([len(span.tokens) for span in spans], default=0))

    @abstractmethod
    def _next_span(self, sequence: Text, limit: int, spans: list[Span]) -> Span | None:
        """The tokens of a sequence to read now; without logits, if there are more. None: it can have no draft.

        `spans`: the spans of this step so far, whose rows and cells are taken.
        """

    @abstractmethod
    def _decode(self, spans: Sequence[Span]) -> Logits | list[Logits]:
        """The rows of logits that spans want, as the caller's own. Called with none too."""

    @abstractmethod
    def _after(self, sequence: Text, draft: list[int]) -> Span:
        """The last token of a draft, to go on from it."""

    @abstractmethod
    def _end(self, drafts: dict[Text, list[int]]) -> None:
        """All drafts of this step are made."""

    def _extend(
        self,
        draft: list[int],
        sequence: Text,
        row: Logits,
        limit: int,
        scout: LookaheadGuide | None,
    ) -> bool:
        """Append a guess; False: the draft ends here. What goes wrong ends the draft only: the request needs none."""
        row = _widened(row, sequence.sampler.vocab_size)
        try:
            if scout and not scout.apply(row):
                return False
            draft.append(sequence.sampler.guess(row, sequence.num_output + len(draft)))
            if len(draft) >= limit or draft[-1] >= self._limits.vocab_size:
                return False
            return scout is None or scout.accept(draft[-1])
        except SegueError:  # bans leave no token, or the logits of drafts are no numbers
            return False
        except Exception:
            log.exception("request %s has no draft", sequence.request_id)
            return False


def _scout(sequence: Text) -> LookaheadGuide | None:
    try:
        return sequence.guide.scout() if sequence.guide else None
    except Exception:
        log.exception("request %s has no drafts", sequence.request_id)
        return None


def _widened(row: Logits, width: int) -> Logits:
    """The row as the sampler expects it: one vocabulary may have more padding than the other."""
    if row.size >= width:
        return row[:width]
    return np.concatenate([row, np.full(width - row.size, -np.inf, np.float32)])
