"""Speculative decoding with a draft model: a small model of the same vocabulary proposes tokens.

A sequence uses the slot of the same number in both models. Each time, the tokens in the draft model's slot are compared
with the sequence's, and its KV cache is trimmed to the common prefix: so rejected tokens and former owners do no harm.
"""

from collections.abc import Sequence

from segue.engine.request.sequence import Sequence as Text
from segue.engine.scheduling.drafts.payoff import Payoff
from segue.engine.scheduling.drafts.proposer import Proposer
from segue.engine.scheduling.prefix_cache import common_length
from segue.engine.seam import Logits, Runner, Span

_ROWS = 6
# Tokens of a sequence that the draft model reads per step: a long prompt must not delay the other sequences.
_CHUNK = 128
MANY = _ROWS  # tokens: where more are read before it drafts, how long that took tells nothing about drafts
_WORTH_READING = 8  # a prompt is read only if the answer may be at least an eighth as long


class DraftModel(Proposer):
    num_rows = _ROWS

    def __init__(self, runner: Runner, payoff: Payoff | None = None) -> None:
        super().__init__(runner.capabilities, payoff)
        self._runner = runner
        self._held: dict[int, list[int]] = {}  # by slot: the tokens in the draft model's KV

    def _next_span(self, sequence: Text, limit: int, spans: list[Span]) -> Span | None:
        """The tokens that the draft model has not read yet. If too many: a part of them, without a draft."""
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

    def _decode(self, spans: Sequence[Span]) -> Logits | list[Logits]:
        if not spans:
            return []
        for span in spans:
            self._held[span.slot] += span.tokens
        return self._runner.decode(spans).copy()

    def _after(self, sequence: Text, draft: list[int]) -> Span:
        slot = sequence.slot or 0
        return Span(slot, draft[-1:], len(self._held[slot]), 1)

    def _end(self, drafts: dict[Text, list[int]]) -> None:
        """What it holds of them is trimmed when it is asked again."""

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
