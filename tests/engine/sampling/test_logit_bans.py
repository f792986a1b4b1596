"""Which tokens would complete a banned phrase, and which biases are left to a sampling step."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from segue.engine.sampling.logit_bans import LogitBans
from segue.engine.sampling.token_rules import TokenRules
from segue.types import Sampling

tokens = st.integers(0, 3)


@given(
    st.lists(st.lists(tokens, min_size=1, max_size=4).map(tuple), max_size=12),
    st.lists(tokens, max_size=9),
)
def test_phrases_are_completed_by_their_last_tokens(
    words: list[tuple[int, ...]], text: list[int]
) -> None:
    bans = LogitBans(Sampling(), TokenRules(bad_words=tuple(words)), has_bias_step=False)
    assert bans.has_phrases == any(len(word) > 1 for word in words)
    for token in text if bans.has_phrases else ():
        bans.push(token)
    ended = [text[len(text) - len(word) + 1 :] for word in words]
    expected = {
        last
        for (*first, last), end in zip(words, ended, strict=True)
        if first and len(text) >= len(first) and end == first
    }
    assert set(bans.completing()) == expected


def test_a_step_adds_all_biases_but_bans() -> None:
    sampling = Sampling(logit_bias={0: 2.0, 1: -np.inf, 2: -3.0})
    bans = LogitBans(sampling, TokenRules(text_bias={0: 0.5}), has_bias_step=True)
    row = bans.admitted(np.zeros(4, np.float32), 0).logits
    assert row.tolist() == [0, -np.inf, 0, 0]
    bans.add_biases(row)
    assert row.tolist() == [2.5, -np.inf, -3, 0]


def test_whoever_adds_them_a_bias_may_forbid_what_a_constraint_forces() -> None:
    sampling = Sampling(logit_bias={0: 2.0})
    assert LogitBans(Sampling(), TokenRules(), has_bias_step=False).is_lenient
    assert not any(LogitBans(sampling, TokenRules(), step).is_lenient for step in (False, True))
