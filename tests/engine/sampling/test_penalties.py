from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.engine.sampling.penalties import History, Occurrences, Penalties
from segue.engine.seam import Cut, Draw
from segue.runners.fake_draws import changed
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


def test_the_repetition_penalty_may_come_last() -> None:
    """As in mistral.rs: what presence and frequency take off is divided too."""
    sampling = Sampling(
        repetition_penalty=2.0, presence_penalty=0.5, frequency_penalty=0.25, repetition_last=True
    )
    penalties = Penalties(sampling)
    penalties.start([0, 1])
    for token in (1, 1, 3):
        penalties.push(token)
    logits = np.array([4, 4, 4, 0.5], np.float32)
    penalties.apply(logits)
    assert logits.tolist() == [2, (4 - 0.5 - 0.5) / 2, 4, (0.5 - 0.5 - 0.25) * 2]


# --- told to a runner ---


@given(
    prompt=tokens,
    output=tokens,
    window=st.integers(-1, 12).filter(bool),
    factors=st.tuples(
        st.sampled_from([1.0, 1.3]), st.sampled_from([0.0, -0.0, 0.7]), st.sampled_from([0.0, 0.2])
    ),
    counts_prompt=st.booleans(),
    repetition_last=st.booleans(),
)
def test_what_is_told_ahead_is_what_is_applied(
    prompt: list[int],
    output: list[int],
    window: int,
    factors: tuple[float, float, float],
    counts_prompt: bool,
    repetition_last: bool,
) -> None:
    """With the last token known, and told before it was."""
    repetition, presence, frequency = factors
    penalties = Penalties(
        Sampling(
            repetition_penalty=repetition,
            presence_penalty=presence,
            frequency_penalty=frequency,
            penalty_window=window,
            penalize_prompt=counts_prompt,
            repetition_last=repetition_last,
        )
    )
    row = np.random.default_rng(len(output)).normal(0, 3, 7).astype(np.float32)
    penalties.start(prompt)
    for token in output:
        early = penalties.repeats(1)
        penalties.push(token)
        late = penalties.repeats(drawn=None)
        wanted = row.copy()
        penalties.apply(wanted)
        for repeats in (early, late):
            found = changed(
                row, Draw(0, 0.5, (Cut("penalties", 0.0, 0),), None, repeats), [6, token]
            )
            assert found.tobytes() == wanted.tobytes()


def test_tokens_that_were_told_stay_as_they_are() -> None:
    history = History()
    history.start([1, 2, 3])
    told = []
    for token in range(1000):
        told.append((history.tokens, history.size))
        history.push(token)
    for number, (tokens, size) in enumerate(told):
        assert tokens[:size].tolist() == [1, 2, 3, *range(number)]
    assert len({id(tokens) for tokens, _ in told}) < 5, "seldom copied"


def test_a_history_need_not_be_started() -> None:
    history = History()
    history.push(5)
    assert history.tokens[: history.size].tolist() == [5]
