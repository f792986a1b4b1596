"""Drafts of crowds in tests: guesses at any time, right as far as chance has it."""

import random
from collections.abc import Iterable, Mapping

from segue.engine.request.sequence import Sequence, SequenceKey
from tests.engine.harness import Bench

Texts = Mapping[SequenceKey, list[int]]
"""The tokens of sequences that have ended."""


def texts(benches: Iterable[Bench]) -> dict[SequenceKey, list[int]]:
    """Of all requests that they had."""
    return {
        SequenceKey(each.request_id, each.prompt_index, each.candidate): each.tokens
        for bench in benches
        for job in bench.jobs
        for each in job.sequences
    }


class Guesses:
    """In place of drafts from the texts: a request's tokens are known from a run without."""

    def __init__(self, known: Texts, chance: random.Random) -> None:
        self._known = known
        self._chance = chance

    def plan(self, decoding: list[Sequence]) -> dict[Sequence, list[int]]:
        drafts = {sequence: self._draft(sequence) for sequence in decoding}
        return {sequence: draft for sequence, draft in drafts.items() if draft}

    def are_coming(self, going_on: list[Sequence]) -> bool:
        return self._chance.random() < 0.3

    def _draft(self, sequence: Sequence) -> list[int]:
        key = SequenceKey(sequence.request_id, sequence.prompt_index, sequence.candidate)
        rest = self._known.get(key, [])[sequence.num_dropped + len(sequence.tokens) :]
        wrong = [self._chance.choice([97, 98, 32])] * self._chance.choice([0, 0, 1, 2])
        return rest[: self._chance.choice([0, 0, 1, 3, 9])] + wrong


def guess(crowd: Bench, known: Texts, chance: random.Random) -> None:
    """Have the bench draft, unless its runner takes no drafts."""
    scheduler = crowd.scheduler
    guesses = Guesses(known, chance)
    scheduler._planner._text_drafts = guesses  # type: ignore[assignment]
    scheduler._ahead._drafts = guesses  # type: ignore[assignment]
