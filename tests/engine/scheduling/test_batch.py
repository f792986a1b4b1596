"""Logits of a shape that was not asked for, and what drafts are counted as."""

import numpy as np
import pytest

from segue.engine.scheduling.batch import Batch, Counts
from segue.engine.seam import Span
from segue.errors import EngineFault


@pytest.mark.parametrize("shape", [(2, 8), (4, 8), (3, 7), (24,)])
def test_rows_would_be_taken_for_those_of_other_sequences(shape: tuple[int, ...]) -> None:
    batch = Batch(spans=[Span(0, [5, 6, 7], 0, 2), Span(1, [5, 6], 0, 1), Span(2, [5], 0, 0)])
    batch.check(np.zeros((3, 8), np.float32), 8)
    with pytest.raises(EngineFault, match="the runner gave logits of shape"):
        batch.check(np.zeros(shape, np.float32), 8)


def test_right_guesses_count_by_their_place() -> None:
    counts = Counts()
    for num_tokens, num_accepted in ((3, 0), (3, 2), (1, 1), (40, 40)):
        counts.drafted(num_tokens, num_accepted)
    assert (counts.drafts, counts.draft_tokens, counts.draft_accepted) == (4, 47, 43)
    assert counts.draft_accepted_at == (3, 2, *[1] * 14), "the first places are told apart"
