"""Beam search on small models, against a plain search that keeps every text in one list."""

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.engine.request.beams import Beam, BeamSearch
from segue.types import Cause, TokenScore

END = 0
Model = Callable[[tuple[int, ...]], list[float]]  # text → log-probability of each token


def model(seed: int, size: int) -> Model:
    def logprobs(text: tuple[int, ...]) -> list[float]:
        row = np.random.default_rng([seed, *(token + 1 for token in text)]).normal(0, 2, size)
        shifted = row - row.max()
        found: list[float] = (shifted - math.log(np.exp(shifted).sum())).tolist()
        return found

    return logprobs


def ends(token: int) -> Cause | None:
    return "eos" if token == END else None


def searched(model: Model, search: BeamSearch, number: int) -> list[Beam]:
    while search.beams:
        following = []
        for beam in search.beams:
            row = model(beam.tokens)
            likeliest = sorted(range(len(row)), key=lambda t: (-row[t], t))[
                : search.num_alternatives
            ]
            following.append(
                [TokenScore(t, b"", row[t], i, ()) for i, t in enumerate(likeliest, 1)]
            )
        search.advance(following)
    return search.best(number)


def plain(
    model: Model, width: int, max_tokens: int, penalty: float
) -> list[tuple[float, tuple[int, ...]]]:
    """The same search, as vLLM describes it, without any shortcut: (score, text) best first."""
    beams: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    done: list[tuple[float, tuple[int, ...]]] = []
    for _ in range(max_tokens):
        longer = []
        for logprob, text in beams:
            row = model(text)
            for token in sorted(range(len(row)), key=lambda t: (-row[t], t))[: 2 * width]:
                both = logprob + row[token]
                if token == END:
                    done.append((both, (*text, token)))
                else:
                    longer.append((both, (*text, token)))
        beams = sorted(longer, key=lambda each: -each[0])[:width]
    done += beams
    valued = [(logprob / len(text) ** penalty, text) for logprob, text in done]
    return sorted(valued, key=lambda each: -each[0])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(2, 6),
    width=st.integers(1, 4),
    max_tokens=st.integers(1, 6),
    penalty=st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0]),
)
def test_the_texts_are_those_of_a_plain_search(
    seed: int, size: int, width: int, max_tokens: int, penalty: float
) -> None:
    """It stops early where nothing can change any more, and finds the same."""
    small = model(seed, size)
    search = BeamSearch(width, max_tokens, penalty, ends)
    found = searched(small, search, width)
    expected = plain(small, width, max_tokens, penalty)[:width]
    assert [beam.tokens for beam in found] == [text for _, text in expected]
    for beam in found:
        assert beam.logprob == pytest.approx(
            sum(small(beam.tokens[:i])[t] for i, t in enumerate(beam.tokens))
        )
        assert [score.token for score in beam.scores] == list(beam.tokens)


@pytest.mark.parametrize("seed", range(5))
def test_a_search_as_wide_as_the_model_is_exhaustive(seed: int) -> None:
    small, size, longest = model(seed, 3), 3, 3
    [best] = searched(small, BeamSearch(size**longest, longest, 0.0, ends), 1)
    texts = [
        text
        for length in range(1, longest + 1)
        for text in product(range(size), repeat=length)
        if END not in text[:-1] and (text[-1] == END or length == longest)
    ]
    values = {t: sum(small(t[:i])[token] for i, token in enumerate(t)) for t in texts}
    assert best.tokens == max(texts, key=lambda text: values[text])


def test_a_length_penalty_prefers_longer_texts() -> None:
    def falling(text: tuple[int, ...]) -> list[float]:
        return [math.log(0.4), math.log(0.6)]

    short, long = (
        searched(falling, BeamSearch(2, 8, penalty, ends), 1)[0] for penalty in (-4.0, 4.0)
    )
    assert (short.tokens, short.cause) == ((END,), "eos")
    assert (len(long.tokens), long.cause) == (8, "max_tokens")


def test_a_search_ends_where_nothing_can_change_any_more() -> None:
    """The end is likelier than whatever would follow the other token."""
    search = BeamSearch(1, 8, 1.0, ends)
    search.advance([[TokenScore(END, b"", -0.01, 1, ()), TokenScore(1, b"", -4.6, 2, ())]])
    assert search.beams == []
    assert [beam.tokens for beam in search.best(2)] == [(END,)]


def test_equal_scores_are_ordered_by_token() -> None:
    def even(text: tuple[int, ...]) -> list[float]:
        return [math.log(0.2)] * 5

    search = BeamSearch(2, 3, 1.0, lambda token: None)
    assert [beam.tokens for beam in searched(even, search, 2)] == [(0, 0, 0), (0, 0, 1)]
