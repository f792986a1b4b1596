"""Which tokens are drafted from the texts of the running sequences themselves (request/draft.py), for one step."""

from collections.abc import Iterable

from segue.engine.request.sequence import Sequence
from segue.engine.scheduling.drafts.costs import SIZES, DraftCosts
from segue.engine.seam import Capabilities


class TextDrafts:
    def __init__(self, limits: Capabilities, costs: DraftCosts) -> None:
        self._costs = costs
        self._most_rows = min(limits.draft_rows, SIZES[-1])
        self._most_tokens = limits.most_returnable - 1  # of one sequence

    def plan(self, decoding: list[Sequence]) -> dict[Sequence, list[int]]:
        """The draft of each sequence that has one in the next step."""
        counts = self._counts(decoding, 0)
        drafts = {s: s.drafter.draft(s.tokens, count) for s, count in counts.items()}
        return {sequence: draft for sequence, draft in drafts.items() if draft}

    def are_coming(self, going_on: list[Sequence]) -> bool:
        """Whether steps should stop going ahead, since there will probably be drafts after the step that is open."""
        return bool(self._counts(going_on, 1))

    def _counts(self, decoding: list[Sequence], num_open: int) -> dict[Sequence, int]:
        """How many draft tokens sequences get. `num_open`: tokens of each that are not known yet."""
        num_sequences = len(decoding)
        spare = self._most_rows - num_sequences
        most = min(spare, self._most_tokens)
        if most <= 0:
            return {}
        chances = [
            (chance, sequence)
            for sequence in decoding
            if _may_draft(sequence)
            for chance in _chances(sequence, most, num_open)
        ]
        if not chances:
            return {}
        chances.sort(key=_chance, reverse=True)
        likely = [chance for chance, _ in chances[:spare]]
        count = self._costs.num_drafted(num_sequences, likely, ends_steps=num_open > 0)
        counts: dict[Sequence, int] = {}
        for _, sequence in chances[:count]:
            counts[sequence] = counts.get(sequence, 0) + 1
        return counts


def _may_draft(sequence: Sequence) -> bool:
    # In this order: what is forced is known only with the mask, and whoever asks for it waits.
    return not (sequence.awaits_mask or sequence.forced)


def _chances(sequence: Sequence, most: int, num_open: int) -> Iterable[float]:
    left = sequence.num_left - num_open
    return sequence.drafter.chances(sequence.tokens, min(most, left - 1), num_open)


def _chance(chance: tuple[float, Sequence]) -> float:
    return chance[0]
