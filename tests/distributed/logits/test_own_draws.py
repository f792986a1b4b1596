"""Tokens drawn by our own sampler from rows that vLLM gives, some of which it throws away."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.distributed.logits import own_draws
from segue.distributed.logits.own_draws import Draw, OwnDraws, needs_history, steps_only, unpack
from segue.engine.sampling.sampler import Sampler
from segue.engine.sampling.token_rules import TokenRules
from segue.types import Sampling, Step

WIDTH = 60
SAMPLINGS: dict[str, dict[str, Any]] = {
    "typical_p": {"typical_p": 0.5},
    "xtc": {"xtc_probability": 0.6, "xtc_threshold": 0.05},
    "dry": {"dry_multiplier": 3.0, "dry_allowed_length": 1},
    "mirostat 1": {"mirostat": 1, "mirostat_tau": 3.0, "mirostat_eta": 0.4},
    "mirostat 2": {"mirostat": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.4},
    "adaptive_p": {"order": ("temperature", "adaptive_p"), "adaptive_target": 0.3},
    "dynatemp": {"dynatemp_range": 0.7},
    "biases after penalties": {
        "order": ("penalties", "logit_bias", "temperature"),
        "repetition_penalty": 1.8,
        "frequency_penalty": 1.0,
        "repetition_last": True,
        "logit_bias": {3: 2.0, 7: -1.5},
    },
    "window": {"repetition_penalty": 1.8, "frequency_penalty": 1.0, "penalty_window": 3},
}
PROMPT = (3, 7, 3, 7, 9)
BREAKERS = {9: frozenset({()})}


def rows(number: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(0, 2, (number, WIDTH)).astype(np.float32)


def expected(sampling: Sampling, logits: Any) -> list[int]:
    rules = TokenRules(ends=frozenset({1}), breakers=BREAKERS)
    sampler = Sampler(sampling, 5, 2, WIDTH, rules)
    sampler.start(PROMPT)
    tokens: list[int] = []
    for position, row in enumerate(logits):
        tokens.append(sampler.sample(row.copy(), position))
        sampler.push(tokens[-1])
    return tokens


def draw_of(sampling: Sampling, key: str = "a") -> Draw:
    breakers = tuple((token, tuple(tails)) for token, tails in BREAKERS.items())
    draw = Draw(
        key=key,
        sampling=steps_only(sampling, TokenRules()),
        seed=5,
        candidate=2,
        num_prompt=len(PROMPT),
        prompt=PROMPT if needs_history(sampling) else (),
        ends=(1,),
        breakers=breakers,
    )
    return unpack(draw.packed())


@pytest.mark.parametrize("name", SAMPLINGS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_tokens_are_those_of_the_sampler(name: str, data: st.DataObject) -> None:
    """Whatever rows vLLM throws away: those of parts of a prompt, and of tokens computed again."""
    sampling = Sampling(**SAMPLINGS[name])
    logits = rows(8)
    draws, how = OwnDraws(WIDTH), draw_of(sampling)
    wasted = rows(8, 1)
    drawn: list[int] = []
    for position, row in enumerate(logits):
        for _ in range(data.draw(st.integers(0, 2))):
            other = data.draw(st.sampled_from([*range(-3, position - 1), position]))
            draws.tokens([(0, how, other)], wasted[len(drawn) :][:1].copy())
        found = draws.tokens([(4, how, position)], row[None].copy())
        drawn.append(found[4])
    assert drawn == expected(sampling, logits)


def test_rows_of_several_requests_are_told_apart() -> None:
    mirostat, plain = Sampling(mirostat=2, mirostat_tau=2.0), Sampling(typical_p=0.3)
    draws, logits = OwnDraws(WIDTH), rows(6)
    drawn: dict[int, list[int]] = {0: [], 3: []}
    for position, row in enumerate(logits):
        wanted = [(0, draw_of(mirostat), position), (3, draw_of(plain, "b"), position)]
        for place, token in draws.tokens(wanted, np.stack([row, row])).items():
            drawn[place].append(token)
    assert drawn == {0: expected(mirostat, logits), 3: expected(plain, logits)}


def test_a_batch_of_more_than_are_kept_forgets_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_draws, "_MOST_KEPT", 1)
    sampling, logits, keys = Sampling(mirostat=2, mirostat_tau=2.0), rows(6), "abcd"
    draws, drawn = OwnDraws(WIDTH), {place: list[int]() for place in range(len(keys))}
    for position, row in enumerate(logits):
        wanted = [(place, draw_of(sampling, key), position) for place, key in enumerate(keys)]
        for place, token in draws.tokens(wanted, np.stack([row] * len(keys))).items():
            drawn[place].append(token)
    assert list(drawn.values()) == [expected(sampling, logits)] * len(keys)


@pytest.mark.parametrize(("bound", "most"), [("_MOST_KEPT", 3), ("_MOST_TOKENS", 3 * len(PROMPT))])
def test_of_those_that_left_the_last_ones_are_kept(
    monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    monkeypatch.setattr(own_draws, bound, most)
    draws, sampling = OwnDraws(WIDTH), Sampling(mirostat=2, presence_penalty=0.5)
    for key in "abcdefgh":
        draws.tokens([(0, draw_of(sampling, key), 0)], rows(1))
    draws.tokens([(0, draw_of(Sampling(mirostat=2), "last"), 0)], rows(1))
    assert list(draws._candidates) == ["f", "g", "h", "last"]


def test_given_tokens_are_drawn_in_order() -> None:
    draws, how = OwnDraws(WIDTH), Draw(key="a", forced=(7, 1, 7))
    found = [draws.tokens([(0, how, place)], rows(1))[0] for place in range(3)]
    assert found == [7, 1, 7]


def test_a_row_in_which_all_is_banned_is_left_alone() -> None:
    banned = np.full((1, WIDTH), -np.inf, np.float32)
    assert OwnDraws(WIDTH).tokens([(0, draw_of(Sampling(typical_p=0.5)), 0)], banned) == {}


def test_bans_are_left_to_vllm() -> None:
    sampling = Sampling(logit_bias={1: -5.0}, min_tokens=3, allowed_token_ids=(1,), ignore_eos=True)
    assert steps_only(sampling, TokenRules()) == Sampling()


def test_biases_are_left_to_vllm_where_nothing_comes_before_them() -> None:
    order: tuple[Step, ...] = ("penalties", "logit_bias", "temperature")
    sampling = Sampling(order=order, logit_bias={1: -5.0, 2: -np.inf}, typical_p=0.5)
    assert steps_only(sampling, TokenRules()).logit_bias == {}
    sampling = msgspec.structs.replace(sampling, presence_penalty=0.5)
    assert steps_only(sampling, TokenRules(text_bias={4: 2.0})).logit_bias == {1: -5.0, 4: 2.0}
