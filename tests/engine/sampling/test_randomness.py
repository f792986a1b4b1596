import numpy as np

from segue.engine.sampling.randomness import Points, Purpose


def uniform(seed: int, candidate: int, position: int, purpose: Purpose = "token") -> float:
    return Points(seed, candidate, purpose).at(position)


def test_numbers_are_those_of_every_version() -> None:
    """Seeded answers depend on them."""
    assert uniform(1, 2, 3) == 0.7594111429678879
    assert uniform(2**64 - 1, 7, 500, "xtc") == 0.2093032960431651


def test_a_pure_function_of_its_key() -> None:
    assert uniform(1, 2, 3) == uniform(1, 2, 3)
    keys = [(s, c, p) for s in range(5) for c in range(5) for p in range(5)]
    assert len({uniform(*key) for key in keys}) == len(keys)


def test_uniform() -> None:
    """Chi-square over 100 bins; the keys are fixed, so it cannot flake."""
    draws = np.array([uniform(42, 0, position) for position in range(20_000)])
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    counts, _ = np.histogram(draws, bins=100, range=(0, 1))
    assert ((counts - 200.0) ** 2 / 200.0).sum() < 149  # 99.9th percentile, 99 degrees of freedom


def test_seeds_of_any_size() -> None:
    assert uniform(-1, 0, 0) == uniform(2**64 - 1, 0, 0)
    assert uniform(2**63, 0, 0) != uniform(0, 0, 0)
