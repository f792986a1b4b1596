"""Compiled softmax gives exact_math's bits on every flavour this machine can run."""

from collections.abc import Iterator

import numpy as np
import pytest

from segue import exact_math
from segue.exact_math import Floats
from segue.runners.cpu.products.processor import Flavour, possible, target_of
from segue.runners.cpu.step.softmax import Softmax
from tests.test_exact_math import mixture


@pytest.fixture(scope="module", params=possible(), ids=lambda flavour: flavour.name)
def softmax(request: pytest.FixtureRequest) -> Softmax:
    flavour: Flavour = request.param
    return Softmax(target_of(flavour))


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = exact_math._compiled
    exact_math.use(None)
    yield
    exact_math._compiled = before


@pytest.mark.parametrize("size", [1, 15, 16, 17, 40, 1024, 1025, 4097, 4160, 49_152, 151_936])
def test_bits_are_equal(softmax: Softmax, size: int) -> None:
    logits = mixture(size, size) * np.float32(6.0)
    logits[3::7] = -np.inf
    best = float(logits.max())
    slow = exact_math.weights(logits, best)
    slow_sum, slow_columns = exact_math.total(slow), exact_math.folded(slow)
    exact_math.use(softmax)
    fast = exact_math.weights(logits, best)
    assert fast.tobytes() == slow.tobytes()
    assert exact_math.folded(fast).tobytes() == slow_columns.tobytes()
    assert exact_math.total(fast) == slow_sum


def test_what_it_cannot_read_is_computed_as_before(softmax: Softmax) -> None:
    logits = mixture(1, 20_000)[::2]
    slow = exact_math.weights(logits, 16.0)
    exact_math.use(softmax)
    assert exact_math.weights(logits, 16.0).tobytes() == slow.tobytes()
    halves = exact_math.folded(slow.astype(np.float64))
    assert halves.dtype == np.float64


def test_code_with_other_bits_is_refused(softmax: Softmax) -> None:
    class Hasty:
        def weigh(self, logits: Floats, best: float, out: Floats) -> None:
            np.exp(logits - np.float32(best), out=out)

        fold = softmax.fold

    with pytest.raises(ValueError, match="does not give the bits"):
        exact_math.use(Hasty())
    assert exact_math._compiled is None
