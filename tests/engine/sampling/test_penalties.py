from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.engine.sampling.penalties import Occurrences, Penalties
from segue.types import Sampling
from tests.support.llama_samplers import Reference, Row

tokens = st.lists(st.integers(0, 6), max_size=40)


@given(tokens, tokens, st.integers(-1, 12).filter(bool))
def test_counts_are_those_of_the_window(prompt: list[int], output: list[int], window: int) -> None:
    seen = Occurrences(window)
    seen.start(prompt)
    history = list(prompt)
    for token in output:
        seen.push(token)
        history.append(token)
        recent = history if window < 0 else history[-window:]
        pairs = zip(seen.ids.tolist(), seen.counts.tolist(), strict=True)
        assert dict(pairs) == Counter(recent)


def test_many_tokens_grow_the_arrays() -> None:
    seen = Occurrences(-1)
    seen.start(range(1000))
    seen.push(5)
    assert sorted(seen.ids.tolist()) == list(range(1000))
    assert seen.counts.sum() == 1001


def test_same_logits_as_llama_cpp() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        logits = rng.normal(0, 3, 50).astype(np.float32)
        history = rng.integers(0, 50, int(rng.integers(0, 60))).tolist()
        window = int(rng.integers(1, 70))
        repetition, frequency, presence = rng.uniform([0.5, -1, -1], [2, 1, 1]).tolist()
        sampling = Sampling(
            repetition_penalty=repetition,
            frequency_penalty=frequency,
            presence_penalty=presence,
            penalty_window=window,
            penalize_prompt=True,
        )
        penalties = Penalties(sampling)
        penalties.start(history[: len(history) // 2])
        for token in history[len(history) // 2 :]:
            penalties.push(token)
        ours = logits.copy()
        penalties.apply(ours)
        row = Row(logits)
        with Reference("penalties", 50, window, repetition, frequency, presence) as reference:
            reference.accept(history)
            reference.apply(row)
        assert ours == pytest.approx(row.entries["logit"], abs=1e-5)


def test_presence_and_frequency_may_look_at_the_output_only() -> None:
    """As OpenAI and vLLM define them; repetition looks at the prompt all the same."""
    sampling = Sampling(repetition_penalty=2.0, presence_penalty=0.5, frequency_penalty=0.25)
    penalties = Penalties(sampling)
    penalties.start([0, 1])
    penalties.push(1)
    penalties.push(1)
    logits = np.array([4, 4, 4, -4], np.float32)
    penalties.apply(logits)
    assert logits.tolist() == [2, 2 - 0.5 - 0.5, 4, -4]
