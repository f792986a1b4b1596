"""Which tokens would complete a banned phrase."""

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
    bans = LogitBans(Sampling(), TokenRules(bad_words=tuple(words)))
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
