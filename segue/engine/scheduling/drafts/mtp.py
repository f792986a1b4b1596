"""Speculative decoding by the model itself: its MTP layer goes on from what the last step made.

Nothing is read again: a step leaves what the layer needs of each token. The layer is applied again and again, so later
tokens of a draft are worse. How many are worth it is learned from how many of them were accepted.
"""

from collections.abc import Sequence

from segue.engine.request.sequence import Sequence as Text
from segue.engine.scheduling.drafts.payoff import Payoff
from segue.engine.scheduling.drafts.proposer import Proposer
from segue.engine.scheduling.prefix_cache import common_length
from segue.engine.seam import Logits, MtpDrafting, Span

_ROWS = 8
_HOPED = 0.8  # of a token after an accepted one: the chance to be accepted, before any was tried
_RECENT = 1 / 32  # the weight of the last draft in a chance
# A token of a draft costs a pass through the layer and the head, and a row of the next step: it is worth that if it is
# accepted, with all before it, as often as this.
_WORTH = 0.4
_TRIED = 32  # drafts until one is longer by a token, to see if that would do


class MtpProposer(Proposer):
    num_rows = _ROWS

    def __init__(self, mtp: MtpDrafting, payoff: Payoff | None = None) -> None:
        super().__init__(mtp.capabilities, payoff)
        self._mtp = mtp
        self._chances = [_HOPED] * (_ROWS - 1)  # by place in a draft
        self._num_drafts = 0
        # The last drafts, each with how many tokens its sequence had.
        self._last: dict[Text, tuple[int, list[int]]] = {}

    def _next_span(self, sequence: Text, limit: int, spans: list[Span]) -> Span | None:
        self._learn_chances(sequence)
        slot, tokens = sequence.slot, sequence.tokens
        if slot is None or limit <= 0 or len(tokens) + limit >= self._limits.context_length:
            return None
        # Of each sequence: a block that others share is copied, and a draft may reach into the next.
        needed = 2 * self._limits.cells_per_block * (len(spans) + 1)
        if self._mtp.cells_free < needed:
            return None
        return Span(slot, tokens[-1:], len(tokens) - 1, 1)

    def _decode(self, spans: Sequence[Span]) -> Logits | list[Logits]:
        return self._mtp.draft_step(spans).copy() if spans else []

    def _after(self, sequence: Text, draft: list[int]) -> Span:
        return Span(sequence.slot or 0, draft[-1:], len(sequence.tokens) - 1 + len(draft), 1)

    def _end(self, drafts: dict[Text, list[int]]) -> None:
        self._mtp.forget_drafts()
        self._last = {text: (len(text.tokens), draft) for text, draft in drafts.items()}
        self._num_drafts += len(drafts)

    def num_wanted(self, num_decoding: int) -> int:
        return min(super().num_wanted(num_decoding), self._depth())

    def _depth(self) -> int:
        chance, depth = self._chances[0], 1
        for further in self._chances[1:]:
            chance *= further
            if chance < _WORTH:
                break
            depth += 1
        return depth + (self._num_drafts % _TRIED == _TRIED - 1)

    def _learn_chances(self, sequence: Text) -> None:
        """From its last draft."""
        start, draft = self._last.pop(sequence, (0, []))
        found = sequence.tokens[start:]
        if not draft or not found:
            return
        num_right = common_length(draft, found)
        for place in range(min(num_right + 1, len(draft), len(found))):
            self._chances[place] += ((place < num_right) - self._chances[place]) * _RECENT
