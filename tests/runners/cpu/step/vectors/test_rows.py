from typing import Any

import numpy as np

from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.memory import address
from segue.runners.cpu.step.vectors.rows import GROUP, quantise
from tests.runners.cpu.translation.built import built


@compiled
def round_all(x: Any, a: Any, scales: Any, groups: Any) -> Any:
    quantise(x, a, scales, groups)
    return 0


def test_what_is_no_number_is_not_lost_when_rows_are_rounded() -> None:
    """Nor is it passed on to other groups."""
    rows = np.random.default_rng(1).standard_normal((2 * GROUP, 2, GROUP)).astype(np.float32)
    for place in range(2 * GROUP):
        rows[place, 0, place % GROUP] = np.nan if place < GROUP else -np.inf
    codes = np.empty(rows.shape, np.int8)
    scales = np.empty((*rows.shape[:2], 4), np.float32)
    build = built(round_all, 4)
    build(address(rows), address(codes), address(scales), rows.size // GROUP)
    found = scales[..., 0]
    assert np.isnan(found[:GROUP, 0]).all()
    assert (found[GROUP:, 0] == np.inf).all()
    sizes = np.abs(rows[:, 1]).max(-1)
    np.testing.assert_array_equal(found[:, 1], sizes / np.float32(127))
