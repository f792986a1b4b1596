"""Tokens that a constraint forces, which need no draw: several of them are computed in one step."""

from collections import abc

from segue.engine.request.sequence import Sequence
from segue.engine.scheduling.state import State

MAX_FORCED = 32  # tokens per sequence and step


class Forced:
    def __init__(self, state: State) -> None:
        self._jobs = state.jobs

    def is_certain(self, sequence: Sequence, draft: abc.Sequence[int]) -> bool:
        """Whether the draft needs no logits: it is forced, not scored, and the sampler cannot change it."""
        if not draft or not sequence.forced:
            return False
        job = self._jobs[sequence.request_id]
        ends_here = any(token in job.rules.causes for token in draft)
        return sequence.sampler.is_indifferent and not job.needs_scores and not ends_here

    def known(self, sequence: Sequence, num_draft: int) -> tuple[int, ...]:
        """Forced tokens that the next step can compute together, while this step is open; empty if there are none.

        The open step computes the first `num_draft` forced tokens and draws the one after them, the first given here.
        """
        guide = sequence.guide
        if guide is None or sequence.sampler.is_penalising or not guide.is_ready:
            return ()
        most = sequence.num_left - num_draft - 1
        found = guide.forced[num_draft : num_draft + min(most, MAX_FORCED)]
        return found if self.is_certain(sequence, found) else ()
