"""Speculative decoding with a draft model: a small model of the same vocabulary proposes tokens, where the text itself
suggests none (request/draft.py).

A sequence uses the slot of the same number in both models. Each time, the tokens in the draft model's slot are compared
with the sequence's, and its KV cache is trimmed to the common prefix: so rejected tokens and former owners do no harm.

Drafts never change the output: a draft token is accepted only if the sampler draws the same token.
"""

import logging
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from segue.engine.constraints.guide import Scout
from segue.engine.request.sequence import Sequence
from segue.engine.scheduling.drafts.costs import Kind
from segue.engine.scheduling.drafts.payoff import Payoff
from segue.engine.scheduling.prefix_cache import common_length
from segue.engine.seam import Logits, Runner, Span
from segue.errors import SegueError

log = logging.getLogger("segue.scheduler")

_ROWS = 6  # rows per step for all sequences: one for each sequence, the others for drafts
# Tokens of a sequence that the draft model reads per step: a long prompt must not delay the other sequences.
_CHUNK = 128
MANY = _ROWS  # tokens: where more are read before it drafts, how long that took tells nothing about drafts
_WORTH_READING = 8  # a prompt is read only if the answer may be at least an eighth as long
_REST = 16  # steps go ahead for so long where drafts are wanted, but the model can make none


class Proposals(NamedTuple):
    drafts: dict[Sequence, list[int]]
    num_read: int  # tokens, of the sequence with the most


class DraftModel:
    def __init__(self, runner: Runner, payoff: Payoff | None = None) -> None:
        self._runner = runner
        self._limits = runner.capabilities
        self._payoff = payoff or Payoff()
        self._held: dict[int, list[int]] = {}  # by slot: the tokens in the draft model's KV
        self._num_rested = _REST  # steps since it was asked and could do nothing

    def num_wanted(self, num_decoding: int) -> int:
        """How many draft tokens each of `num_decoding` sequences should get in this step; 0: drafts do not pay now."""
        if not num_decoding or not self._payoff.wants(num_decoding):
            return 0
        return max(0, _ROWS // num_decoding - 1)

    def is_coming(self, num_decoding: int) -> bool:
        """Whether steps should stop going ahead, since there will probably be drafts after the step that is open."""
        return self._num_rested >= _REST and self.num_wanted(num_decoding) > 0

    def learn(self, num_sequences: int, kind: Kind, seconds: float, num_tokens: int) -> None:
        """Report how long a step took that had no rows of prompts and of other drafts, and how many tokens it gave."""
        self._num_rested += 1
        if num_tokens:
            self._payoff.learn(num_sequences, kind, seconds, num_tokens)

    def propose(self, wanted: Iterable[tuple[Sequence, int]]) -> Proposals:
        """For each sequence, up to the given number of draft tokens that may follow it."""
        self._num_rested = _REST
        drafts: dict[Sequence, list[int]] = {}
        limits: dict[Sequence, int] = {}
        scouts: dict[Sequence, Scout] = {}
        spans: list[Span] = []
        for sequence, limit in wanted:
            span = self._next_span(sequence, limit, spans)
            scout = self._scout(sequence) if span is not None else None
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
        return Proposals(drafts, max([len(span.tokens) for span in spans], default=0))

    def _next_span(self, sequence: Sequence, limit: int, spans: list[Span]) -> Span | None:
        """The tokens that the draft model has not read yet. If too many: a part of them, without a draft.

        `spans`: the spans of this step so far, whose rows and cells are taken.
        """
        slot, tokens = sequence.slot, sequence.tokens
        if slot is None or slot >= self._limits.num_slots or limit <= 0:
            return None
        held = self._held.setdefault(slot, [])
        known = min(common_length(held, tokens), len(tokens) - 1)
        pending = len(tokens) - known
        left = sequence.max_tokens - sequence.num_output
        if pending > _WORTH_READING * max(left, 1) and pending > _CHUNK:
            return None
        if len(tokens) + limit >= self._limits.context_length:
            return None
        if known < len(held):
            self._runner.trim(slot, known)
            del held[known:]
        room = self._limits.max_rows - sum(len(span.tokens) for span in spans)
        new = tokens[known : known + min(_CHUNK, room)]
        if not new or max(new) >= self._limits.vocab_size:
            return None
        needed = sum(map(self._cells, spans)) + len(new) + _ROWS + 2 * self._limits.cells_per_block
        if not self._make_room(needed, {slot, *(span.slot for span in spans)}):
            return None
        return Span(slot, new, known, int(len(new) == pending))

    def _decode(self, spans: list[Span]) -> Logits | list[Logits]:
        if not spans:
            return []
        for span in spans:
            self._held[span.slot] += span.tokens
        return self._runner.decode(spans).copy()

    def _scout(self, sequence: Sequence) -> Scout | None:
        try:
            return sequence.guide.scout() if sequence.guide else None
        except Exception:
            log.exception("request %s has no drafts", sequence.request_id)
            return None

    def _extend(
        self, draft: list[int], sequence: Sequence, row: Logits, limit: int, scout: Scout | None
    ) -> bool:
        """Append a guess; False: the draft ends here. What goes wrong ends the draft only: the request needs none."""
        row = _widened(row, sequence.sampler.vocab_size)
        try:
            if scout and not scout.apply(row):
                return False
            draft.append(sequence.sampler.guess(row, sequence.num_output + len(draft)))
            if len(draft) >= limit or not self._fits(draft):
                return False
            return scout is None or scout.accept(draft[-1])
        except SegueError:  # bans leave no token, or the draft model's logits are no numbers
            return False
        except Exception:
            log.exception("request %s has no draft", sequence.request_id)
            return False

    def _after(self, sequence: Sequence, draft: list[int]) -> Span:
        slot = sequence.slot or 0
        return Span(slot, draft[-1:], len(self._held[slot]), 1)

    def _fits(self, draft: list[int]) -> bool:
        return draft[-1] < self._limits.vocab_size

    def _cells(self, span: Span) -> int:
        """The most cells that a span and its draft may take."""
        return len(span.tokens) + _ROWS + 2 * self._limits.cells_per_block

    def _make_room(self, needed: int, kept: set[int]) -> bool:
        """Free other sequences' slots until `needed` cells are free; their tokens are read again when needed."""
        others = [slot for slot, held in self._held.items() if held and slot not in kept]
        while self._runner.cells_free < needed and others:
            slot = others.pop(0)
            self._runner.free(slot)
            self._held[slot] = []
        return self._runner.cells_free >= needed


def _widened(row: Logits, width: int) -> Logits:
    """The row as the sampler expects it: one vocabulary may have more padding than the other."""
    if row.size >= width:
        return row[:width]
    return np.concatenate([row, np.full(width - row.size, -np.inf, np.float32)])
