"""Sampling steps that depend on one distribution only: each narrows or scales its candidates.

Banned tokens (−inf) are no candidates: they are never kept, counted or averaged over.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import NDArray

from segue import exact_math
from segue.engine.sampling.candidates import Candidates, Weights, leading, top

GREEDY_BELOW = 1e-7  # a temperature under which the likeliest token is taken
_LOWEST = float(np.finfo(np.float32).min)
_MOST_MERGED = 128  # candidates whose texts infill compares


def greedy(candidates: Candidates) -> None:
    candidates.keep(top(candidates.logits, 1))


def top_k(candidates: Candidates, count: int) -> None:
    """Keep the `count` likeliest."""
    candidates.keep(top(candidates.logits, count))


def top_p(candidates: Candidates, mass: float, min_keep: int) -> None:
    """Holtzman et al., The Curious Case of Neural Text Degeneration: the nucleus, the fewest that hold `mass`."""
    weights = candidates.weights()
    total = exact_math.total(weights)
    candidates.keep(leading(weights, weights, mass * total, max(min_keep, 1)))


def min_p(candidates: Candidates, ratio: float, min_keep: int) -> None:
    """Nguyen et al., Turning Up the Heat: those at least `ratio` times as likely as the likeliest."""
    floor = np.float32(candidates.best + exact_math.log(ratio))
    likely = np.flatnonzero(candidates.logits >= floor)
    candidates.keep(likely if likely.size >= min_keep else top(candidates.logits, min_keep))


def typical_p(candidates: Candidates, mass: float, min_keep: int) -> None:
    """Meister et al., Locally Typical Sampling: tokens whose surprise is closest to the expected surprise.

    So the likeliest token may be removed, if its surprise is far below the expected one.
    """
    weights = candidates.weights()
    total, entropy = _entropy(candidates, weights)
    surprise = np.float32(exact_math.log(total) + candidates.best) - candidates.logits
    typicality = -np.abs(surprise - np.float32(entropy))
    candidates.keep(leading(typicality, weights, mass * total, max(min_keep, 1)))


def top_n_sigma(candidates: Candidates, count: float) -> None:
    """Tang et al., Top-nσ: Not All Logits Are You Need.

    Keeps tokens whose logits are within n standard deviations of the best: logits of noise are Gaussian, and lower.
    """
    possible = candidates.logits
    if possible.min() == -np.inf:
        possible = possible[possible > -np.inf]
    floor = np.float32(candidates.best - count * _deviation(possible))
    candidates.keep(np.flatnonzero(candidates.logits >= floor))


def xtc(candidates: Candidates, threshold: float, min_keep: int) -> None:
    """Exclude Top Choices (p-e-w): of all tokens likelier than `threshold` only the least likely stays."""
    total = exact_math.total(candidates.weights())
    floor = candidates.best + exact_math.log(threshold * total) if threshold > 0 else _LOWEST
    choices = np.flatnonzero(candidates.logits >= np.float32(max(floor, _LOWEST)))
    num_possible = np.count_nonzero(candidates.logits > -np.inf)
    if choices.size < 2 or num_possible - choices.size + 1 < min_keep:
        return
    likelihoods = candidates.logits[choices]
    stays = np.flatnonzero(likelihoods == likelihoods.min())[-1]
    is_kept = np.ones(candidates.logits.size, bool)
    is_kept[np.delete(choices, stays)] = False
    candidates.keep(np.flatnonzero(is_kept))


def temperature(candidates: Candidates, value: float) -> None:
    if value < GREEDY_BELOW:
        greedy(candidates)
    else:
        candidates.scale(value)


def dynamic_temperature(
    candidates: Candidates, middle: float, reach: float, exponent: float
) -> None:
    """Entropy-based dynamic temperature (kalomaze): hot where the model is unsure, cool where it is sure."""
    heat(candidates, *temperature_range(middle, reach), max(exponent, 0.0))


def temperature_range(middle: float, reach: float) -> tuple[float, float]:
    """The lowest temperature, and how far above it the highest is."""
    lowest = max(middle - reach, 0.0)
    return lowest, middle + reach - lowest


def heat(candidates: Candidates, lowest: float, reach: float, exponent: float) -> None:
    """Scale by a temperature in that range, the higher the less sure the distribution is."""
    num_possible = int(np.count_nonzero(candidates.logits > -np.inf))
    if num_possible < 2:
        return
    _, entropy = _entropy(candidates, candidates.weights())
    unsureness = max(entropy, 0.0) / exact_math.log(num_possible)
    temperature(candidates, lowest + reach * exact_math.power(unsureness, exponent))


def infill(
    candidates: Candidates, ends: Collection[int], end: int | None, text: Callable[[int], bytes]
) -> None:
    """llama.cpp's infill sampler: continue only where one text is likely, otherwise end.

    The probabilities of tokens whose texts share a beginning are added. If no text is likely enough, `end` is
    drawn; None: it may not be drawn.
    """
    candidates.keep(top(candidates.logits, _MOST_MERGED))
    tokens = [candidates.token(i) for i in range(candidates.logits.size)]
    is_end = np.array([token in ends for token in tokens], bool)
    weights = candidates.weights().astype(np.float64)
    share = weights / exact_math.total(weights)
    ending = exact_math.total(share[is_end])
    if 3 * ending * len(tokens) > 1 - ending:
        candidates.keep(np.flatnonzero(is_end))
        return
    _merge(share, [text(token) for token in tokens])
    kept = np.flatnonzero(is_end | (share >= 0.2))
    num_texts = kept.size - int(np.count_nonzero(is_end[kept]))
    if num_texts:
        share[kept] /= exact_math.total(share[kept])
        candidates.keep(kept[is_end[kept] | (share[kept] >= 1 / (num_texts + 1))])
    elif end is not None:
        candidates.become(end)
    else:
        greedy(candidates)


def _merge(share: NDArray[np.float64], texts: list[bytes]) -> None:
    """Add each share to that of a token it shares a beginning with, the likelier of the two."""
    alive = [True] * len(texts)
    places = sorted(range(len(texts)), key=texts.__getitem__)
    in_order = [texts[place] for place in places]
    for first, beginning in enumerate(texts):
        if not alive[first] or not beginning:
            continue
        start = stop = bisect_left(in_order, beginning)
        while stop < len(texts) and in_order[stop].startswith(beginning):
            stop += 1
        for second in sorted(places[start:stop]):
            if first != second and alive[second]:
                into, out_of = (second, first) if share[second] > share[first] else (first, second)
                share[into] += share[out_of]
                share[out_of] = 0.0
                alive[out_of] = False
            if not alive[first]:
                break


def _entropy(candidates: Candidates, weights: Weights) -> tuple[float, float]:
    """The sum of all weights, and the entropy in nats."""
    depth = np.maximum(candidates.logits - np.float32(candidates.best), np.float32(-100.0))
    total = exact_math.total(weights)
    return total, exact_math.log(total) - exact_math.total(weights * depth) / total


def _deviation(values: NDArray[np.float32]) -> float:
    """The standard deviation of all values."""
    wide = values.astype(np.float64)
    wide -= exact_math.total(wide) / wide.size
    return math.sqrt(exact_math.total(wide * wide) / wide.size)
