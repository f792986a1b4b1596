"""The cuts in torch keep what the engine's own in numpy keep."""

from itertools import permutations

import numpy as np
import pytest

from segue.engine.sampling import filters as own
from segue.engine.sampling.candidates import Candidates

torch = pytest.importorskip("torch", reason="torch is not installed: `make vllm-test` has it")

VALUES = {"top_k": 12.0, "top_p": 0.8, "min_p": 0.08, "top_n_sigma": 2.0, "temperature": 1.7}


@pytest.mark.parametrize("steps", list(permutations(VALUES, 3)), ids="-".join)
def test_both_keep_the_same(steps: tuple[str, ...]) -> None:
    from segue.distributed.logits.filters import cut

    logits = np.random.default_rng(5).normal(0, 3, (6, 200)).astype(np.float32)
    kept = cut(torch.from_numpy(logits.copy()), [(name, VALUES[name]) for name in steps])
    for row, result in zip(logits, kept.numpy(), strict=True):
        candidates = Candidates(row.copy())
        for name in steps:
            _apply(name, candidates)
        expected = {candidates.token(i) for i in range(candidates.logits.size)}
        assert set(np.flatnonzero(result > -np.inf).tolist()) == expected
        assert np.array_equal(result[result > -np.inf], row[result > -np.inf])


def _apply(name: str, candidates: Candidates) -> None:
    value = VALUES[name]
    match name:
        case "top_k":
            own.top_k(candidates, int(value))
        case "top_p":
            own.top_p(candidates, value, 0)
        case "min_p":
            own.min_p(candidates, value, 0)
        case "top_n_sigma":
            own.top_n_sigma(candidates, value)
        case "temperature":
            own.temperature(candidates, value)
