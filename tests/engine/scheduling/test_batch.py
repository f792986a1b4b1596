"""Logits of a shape that was not asked for."""

import numpy as np
import pytest

from segue.engine.scheduling.batch import Batch
from segue.engine.seam import Span
from segue.errors import EngineFault


@pytest.mark.parametrize("shape", [(2, 8), (4, 8), (3, 7), (24,)])
def test_rows_would_be_taken_for_those_of_other_sequences(shape: tuple[int, ...]) -> None:
    batch = Batch(spans=[Span(0, [5, 6, 7], 0, 2), Span(1, [5, 6], 0, 1), Span(2, [5], 0, 0)])
    batch.check(np.zeros((3, 8), np.float32), 8)
    with pytest.raises(EngineFault, match="the runner gave logits of shape"):
        batch.check(np.zeros(shape, np.float32), 8)
