"""Each cut against llama.cpp's own, over hundreds of random distributions."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from segue.engine.sampling import filters
from segue.engine.sampling.candidates import Candidates
from segue.runners.llama.vocab import LlamaVocab
from tests.support.llama_samplers import Reference, Row, shares

Logits = NDArray[np.float32]
Case = tuple[Callable[[Candidates], None], Reference]

TOLERANCE = 1e-5
NUM_CASES = 150


def distribution(rng: np.random.Generator, number: int) -> Logits:
    """From a handful of tokens to a wide vocabulary, from one sure token to nearly flat."""
    size = int(rng.choice([2, 7, 100, 1500, 12_000] if number % 10 == 0 else [2, 7, 100, 500]))
    return rng.normal(0, rng.choice([0.3, 1, 3, 8]), size).astype(np.float32)


def probabilities(candidates: Candidates) -> dict[int, float]:
    ids = np.arange(candidates.logits.size) if candidates.ids is None else candidates.ids
    return shares(ids, candidates.logits)


def assert_same(ours: dict[int, float], theirs: dict[int, float]) -> None:
    assert ours.keys() == theirs.keys()
    for token, share in theirs.items():
        assert ours[token] == pytest.approx(share, abs=TOLERANCE)


def top_k(rng: np.random.Generator) -> Case:
    count = int(rng.integers(1, 60))
    return lambda c: filters.top_k(c, count), Reference("top_k", count)


def top_p(rng: np.random.Generator) -> Case:
    mass, keep = float(rng.uniform(0, 0.999)), int(rng.choice([0, 1, 5]))
    return lambda c: filters.top_p(c, mass, keep), Reference("top_p", mass, keep)


def min_p(rng: np.random.Generator) -> Case:
    ratio, keep = float(rng.uniform(0.001, 1)), int(rng.choice([0, 1, 5]))
    return lambda c: filters.min_p(c, ratio, keep), Reference("min_p", ratio, keep)


def typical_p(rng: np.random.Generator) -> Case:
    mass, keep = float(rng.uniform(0, 0.999)), int(rng.choice([0, 1, 5]))
    return lambda c: filters.typical_p(c, mass, keep), Reference("typical", mass, keep)


def top_n_sigma(rng: np.random.Generator) -> Case:
    count = float(rng.uniform(0.1, 3))
    return lambda c: filters.top_n_sigma(c, count), Reference("top_n_sigma", count)


def xtc(rng: np.random.Generator) -> Case:
    threshold, keep = float(rng.choice([0.0, 0.02, 0.1, 0.3, 0.5])), int(rng.choice([0, 1, 5]))
    return lambda c: filters.xtc(c, threshold, keep), Reference("xtc", 1.0, threshold, keep, 1)


def temperature(rng: np.random.Generator) -> Case:
    value = float(rng.choice([0.0, 0.1, 0.8, 1.0, 1.7]))
    return lambda c: filters.temperature(c, value), Reference("temp", value)


def dynamic_temperature(rng: np.random.Generator) -> Case:
    middle, reach = float(rng.uniform(0.1, 2)), float(rng.uniform(0.01, 2))
    exponent = float(rng.choice([0.5, 1.0, 2.0]))
    return (
        lambda c: filters.dynamic_temperature(c, middle, reach, exponent),
        Reference("temp_ext", middle, reach, exponent),
    )


@pytest.mark.parametrize(
    "make",
    [top_k, top_p, min_p, typical_p, top_n_sigma, xtc, temperature, dynamic_temperature],
    ids=lambda make: make.__name__,
)
def test_same_candidates_and_probabilities_as_llama_cpp(
    make: Callable[[np.random.Generator], Case],
) -> None:
    rng = np.random.default_rng(4)
    for number in range(NUM_CASES):
        logits = distribution(rng, number)
        if make is typical_p:  # llama.cpp adds up a wide entropy in single precision, and strays
            logits = logits[:1500]
        cut, reference = make(rng)
        with reference:
            row = Row(logits)
            reference.apply(row)
            candidates = Candidates(logits.copy())
            cut(candidates)
            assert_same(probabilities(candidates), row.probabilities())


def test_infill_keeps_what_llama_cpps_keeps(tiny_gguf: Path) -> None:
    vocab = LlamaVocab(tiny_gguf)
    text = {t: b"" if vocab.is_control(t) else vocab.piece(t) for t in range(vocab.size)}
    rng = np.random.default_rng(5)
    texts, ends = sorted(set(range(97, 123)) | set(range(256, 271))), sorted(vocab.end_tokens)
    for _ in range(NUM_CASES):
        logits = np.full(vocab.size, -np.inf, np.float32)
        likely = rng.choice(texts, int(rng.integers(1, 12)), replace=False)
        logits[likely] = rng.normal(0, 2, likely.size)
        logits[rng.choice(ends, 2)] = rng.normal(-6, 3, 2)
        candidates = Candidates(logits.copy())
        filters.infill(candidates, vocab.end_tokens, vocab.eos, text.__getitem__)
        row = Row(logits)
        with Reference("top_k", int(np.isfinite(logits).sum())) as only_possible:
            only_possible.apply(row)
        with Reference("infill", vocab._vocab) as reference:
            reference.apply(row)
        assert_same(probabilities(candidates), row.probabilities())
    vocab.close()


def merged(share: list[float], texts: list[bytes]) -> list[float]:
    """By definition: each text is held against each, in their order."""
    share, alive = [*share], [True] * len(texts)
    for first, beginning in enumerate(texts):
        for second, whole in enumerate(texts):
            are_two = first != second and alive[first] and alive[second]
            if are_two and beginning and whole.startswith(beginning):
                into, out_of = (second, first) if share[second] > share[first] else (first, second)
                share[into], share[out_of] = share[into] + share[out_of], 0.0
                alive[out_of] = False
    return share


TEXTS = st.lists(
    st.tuples(st.binary(max_size=3) | st.text("abé", max_size=3).map(str.encode), st.floats(0, 1)),
    max_size=20,
)


@given(TEXTS)
def test_shares_of_texts_with_one_beginning_are_added(told: list[tuple[bytes, float]]) -> None:
    texts, share = [text for text, _ in told], [number for _, number in told]
    got = np.array(share)
    filters._merge(got, texts)
    assert got.tolist() == merged(share, texts)


@pytest.mark.parametrize(
    "cut",
    [
        lambda c: filters.top_k(c, 40),
        lambda c: filters.top_p(c, 0.9, 9),
        lambda c: filters.min_p(c, 0.01, 9),
        lambda c: filters.typical_p(c, 0.9, 9),
        lambda c: filters.top_n_sigma(c, 2.0),
        lambda c: filters.xtc(c, 0.0, 0),
        lambda c: filters.dynamic_temperature(c, 1.0, 0.5, 1.0),
        lambda c: filters.infill(c, {11}, None, lambda t: b"%d" % t),
        filters.greedy,
    ],
)
def test_forbidden_tokens_are_no_candidates(cut: Callable[[Candidates], None]) -> None:
    """A constraint's mask: what it forbids neither stays nor changes what becomes of the others."""
    rng = np.random.default_rng(6)
    for size in (1, 2, 5):
        logits = np.full(6000, -np.inf, np.float32)
        allowed = np.sort(rng.choice(6000, size, replace=False))
        logits[allowed] = rng.normal(0, 2, size)
        masked, alone = Candidates(logits.copy()), Candidates(logits.copy(), allowed)
        cut(masked)
        cut(alone)
        assert probabilities(masked) == pytest.approx(probabilities(alone), abs=1e-6)
        assert set(probabilities(masked)) <= set(allowed.tolist())
