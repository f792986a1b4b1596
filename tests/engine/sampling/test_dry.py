from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.engine.sampling.breakers import find_breakers
from segue.engine.sampling.dry import Breakers, Dry
from segue.runners.llama.vocab import LlamaVocab
from segue.types import Sampling
from tests.support.llama_samplers import Row, dry

NO_BREAKERS: Breakers = {}


def costs(
    sampling: Sampling, breakers: Breakers, prompt: list[int], output: list[int]
) -> list[float]:
    state = Dry(sampling, breakers)
    state.start(prompt)
    for token in output:
        state.push(token)
    logits = np.zeros(300, np.float32)
    state.apply(logits)
    return (-logits).tolist()


def scripted(text: str, **fields: float) -> dict[str, float]:
    """What each letter would cost after `text`."""
    sampling = Sampling(dry_multiplier=1.0, dry_base=2.0, **fields)  # type: ignore[arg-type]
    by_letter = enumerate(costs(sampling, NO_BREAKERS, [], list(text.encode())))
    return {chr(letter): cost for letter, cost in by_letter if cost}


def test_the_longer_the_repetition_the_dearer_its_next_token() -> None:
    assert scripted("abcxabc") == {"x": 2.0}  # abc again: one over the two allowed
    assert scripted("abcdxabcd") == {"x": 4.0}
    assert scripted("abcyzbcabc") == {"y": 2.0, "a": 1.0}  # the longest match of each counts


def test_what_is_allowed_costs_nothing() -> None:
    assert scripted("abxyab") == {"x": 1.0}
    assert scripted("axya") == {}
    assert scripted("abcxabc", dry_allowed_length=4) == {}


def test_a_repetition_that_began_before_the_window_is_not_seen() -> None:
    assert scripted("abcdxyzabcd", dry_window=11) == {"x": 4.0}
    assert scripted("abcdxyzabcd", dry_window=9) == {"x": 1.0}
    assert scripted("abcdxyzabcd", dry_window=7) == {}


# Words that come again, so that there are repetitions; breakers of one token and of three, one within the other.
WORDS = [(4, 5, 6), (4, 5, 7), (5, 4), (1, 0, 0), (2, 1), (1, 1), (3, 3, 3)]


@given(
    st.lists(st.sampled_from(WORDS), max_size=30),
    st.floats(0, 1),
    st.integers(-1, 40).filter(bool),
    st.integers(0, 4),
)
def test_pushing_tokens_one_by_one_is_starting_with_all(
    words: list[tuple[int, ...]], cut: float, window: int, allowed: int
) -> None:
    history = [token for word in words for token in word]
    sampling = Sampling(dry_multiplier=0.8, dry_window=window, dry_allowed_length=allowed)
    breakers: Breakers = {2: frozenset({(), (1, 1), (1, 1, 1, 0)}), 1: frozenset({(0, 0)})}
    num_given = round(cut * len(history))
    split = costs(sampling, breakers, history[:num_given], history[num_given:])
    assert split == costs(sampling, breakers, history, [])


@pytest.mark.parametrize("breakers", [["\n", ":", '"', "*"], ["the", " a", "é\n"], ["ananas"], []])
def test_same_costs_as_llama_cpp(tiny_gguf: Path, breakers: list[str]) -> None:
    vocab = LlamaVocab(tiny_gguf)
    known = find_breakers(breakers, vocab)
    rng = np.random.default_rng(2)
    words = ["the", " the", " a", "n", "an", " and", "é", "\n", "\n\n", ": ", "in", "ananas", "x*"]
    compared = 0
    for _ in range(150):
        text = "".join(rng.choice(words[: int(rng.integers(2, 14))], int(rng.integers(0, 80))))
        history = vocab.tokenize(text, False, False)
        window, allowed = int(rng.integers(1, 120)), int(rng.integers(0, 5))
        multiplier, base = rng.uniform([0.1, 1.0], [2, 3]).tolist()
        sampling = Sampling(
            dry_multiplier=multiplier,
            dry_base=base,
            dry_window=window,
            dry_allowed_length=allowed,
        )
        row = Row(np.zeros(vocab.size, np.float32))
        with dry(vocab._vocab, multiplier, base, allowed, window, breakers) as reference:
            reference.accept(history)
            reference.apply(row)
        cut = (
            len(history) * int(rng.integers(0, 3)) // 2
        )  # all, half or nothing of it is the prompt
        ours = costs(sampling, known, history[:cut], history[cut:])[: vocab.size]
        theirs = -row.entries["logit"]
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-5)
        compared += bool(theirs.any())
    assert compared > 30, "many scripts must hold a repetition"
    vocab.close()


def test_a_breaker_may_be_spelt_across_tokens(tiny_gguf: Path) -> None:
    """The text "hex" is in no token; "th" + "ex" and "h" + "ex" spell it, as does " the" + "x"."""
    vocab = LlamaVocab(tiny_gguf)
    spelt = {
        vocab.piece(token) + b"".join(map(vocab.piece, rest))
        for token, rests in find_breakers(["hex"], vocab).items()
        for rest in rests
    }
    assert {b"hex", b"thex", b" thex"} <= spelt
    assert all(text.endswith(b"hex") for text in spelt)
    vocab.close()
