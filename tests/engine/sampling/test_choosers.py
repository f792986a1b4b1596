"""Mirostat and adaptive-p beside llama.cpp's, made to draw what it drew."""

import ctypes

import numpy as np
import pytest
from numpy.typing import NDArray

from segue.engine.sampling.candidates import Candidates
from segue.engine.sampling.choosers import AdaptiveP, Mirostat
from tests.support.llama_samplers import Reference, Row, shares

SIZE = 500
_MU_AT = {1: 24, 2: 16}  # bytes into llama.cpp's own state


def distributions(count: int) -> list[NDArray[np.float32]]:
    """Falling with rank roughly as language does."""
    rng = np.random.default_rng(3)
    return [
        (rng.permutation(-rng.uniform(0.8, 2) * np.log(np.arange(1, SIZE + 1)))).astype(np.float32)
        + rng.normal(0, 0.3, SIZE).astype(np.float32)
        for _ in range(count)
    ]


def point_of(row: Row, in_order_of: NDArray[np.generic]) -> float:
    """Where in [0, 1) the token that llama.cpp selected lies, when ours come in that order."""
    entries = row.entries[np.argsort(in_order_of, kind="stable")]
    weights = np.exp(entries["logit"].astype(np.float64) - entries["logit"].max())
    at = int(np.flatnonzero(entries["id"] == row.selected)[0])
    return float((weights[:at].sum() + weights[at] / 2) / weights.sum())


def mu_of(reference: Reference, version: int) -> float:
    state = ctypes.cast(reference._pointer, ctypes.POINTER(ctypes.c_void_p))[1]
    return ctypes.c_float.from_address(int(state or 0) + _MU_AT[version]).value


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("tau", "eta"), [(5.0, 0.1), (2.0, 0.5), (8.0, 0.05)])
def test_mu_moves_as_llama_cpps(version: int, tau: float, eta: float) -> None:
    ours = Mirostat(version, tau, eta, SIZE)
    made = (
        Reference("mirostat", SIZE, 1, tau, eta, 100)
        if version == 1
        else Reference("mirostat_v2", 1, tau, eta)
    )
    with made as reference:
        assert mu_of(reference, version) == pytest.approx(ours.mu)
        for logits in distributions(60):
            row, candidates = Row(logits), Candidates(logits.copy())
            reference.apply(row)
            entries = row.entries
            point = point_of(row, -entries["logit"] if version == 1 else entries["id"])
            drawn = candidates.token(ours.choose(candidates, point))
            assert candidates.ids is not None
            assert sorted(candidates.ids.tolist()) == sorted(entries["id"].tolist())
            assert drawn == row.selected
            assert ours.mu == pytest.approx(mu_of(reference, version), rel=1e-4)


@pytest.mark.parametrize("version", [1, 2])
def test_mirostat_holds_the_surprise_near_tau(version: int) -> None:
    mirostat = Mirostat(version, 3.0, 0.1, SIZE)
    rng = np.random.default_rng(4)
    surprises = []
    for logits in distributions(600):
        candidates = Candidates(logits.copy())
        token = candidates.token(mirostat.choose(candidates, float(rng.random())))
        assert candidates.ids is not None
        surprises.append(-np.log2(shares(candidates.ids, candidates.logits)[token]))
    assert np.mean(surprises[100:]) == pytest.approx(3.0, abs=0.2)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("logits", [[0.0], [1.0, 1.0, 1.0, 1.0], [0.0, -np.inf], [900.0, 0.0]])
def test_mirostat_takes_any_distribution(version: int, logits: list[float]) -> None:
    mirostat = Mirostat(version, 5.0, 0.1, 4)
    for _ in range(50):
        candidates = Candidates(np.array(logits, np.float32))
        index = candidates.token(mirostat.choose(candidates, 0.999))
        assert logits[index] > -np.inf
        assert np.isfinite(mirostat.mu)


@pytest.mark.parametrize(("target", "decay"), [(0.3, 0.9), (0.0, 0.5), (1.0, 0.0), (0.7, 2.0)])
def test_adaptive_p_reweighs_as_llama_cpps(target: float, decay: float) -> None:
    ours = AdaptiveP(target, decay)
    with Reference("adaptive_p", target, decay, 1) as reference:
        for logits in distributions(60):
            row, candidates = Row(logits), Candidates(logits.copy())
            reference.apply(row)
            drawn = ours.choose(candidates, point_of(row, row.entries["id"]))
            reference.accept([row.selected])
            got, wanted = shares(np.arange(SIZE), candidates.logits), row.probabilities()
            assert drawn == row.selected
            assert got == pytest.approx(wanted, abs=1e-5)
