from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from numpy.typing import NDArray

from segue.engine.sampling.sampler import STEPS, Sampler, plan
from segue.engine.sampling.token_rules import TokenRules
from segue.errors import InvalidField
from segue.types import CUT_FIRST, SCALE_FIRST, Sampling, Step
from tests.support.llama_samplers import Reference, Row, shares

SIZE = 200
NUMBERS = {token: b"%d" % token for token in range(SIZE)}  # texts
Logits = NDArray[np.float32]


def some_logits(seed: int = 0, size: int = SIZE, spread: float = 2.0) -> Logits:
    return np.random.default_rng(seed).normal(0, spread, size).astype(np.float32)


def distribution(
    sampling: Sampling, logits: Logits, history: list[int] | None = None
) -> dict[int, float]:
    sampler = Sampler(sampling, 1, 0, logits.size, keeps_distribution=True)
    sampler.start(history or [])
    token = sampler.sample(logits.copy(), 0)
    assert sampler.distribution is not None
    ids, weights = sampler.distribution
    shares = (weights / weights.sum(dtype=np.float64)).tolist()
    pairs = zip(range(weights.size) if ids is None else ids.tolist(), shares, strict=True)
    found = {i: share for i, share in pairs if share > 0}
    assert token in found
    return found


# --- the whole chain ------------------------------------------------------------------------------

ALL_ON = Sampling(
    temperature=0.7,
    dynatemp_range=0.3,
    top_k=30,
    top_p=0.9,
    min_p=0.02,
    typical_p=0.95,
    top_n_sigma=2.0,
    xtc_probability=1.0,
    xtc_threshold=0.15,
    min_keep=2,
    repetition_penalty=1.2,
    presence_penalty=0.3,
    frequency_penalty=0.1,
    penalty_window=40,
    penalize_prompt=True,
)
REFERENCES: dict[Step, tuple[object, ...]] = {
    "penalties": ("penalties", SIZE, 40, 1.2, 0.1, 0.3),
    "top_n_sigma": ("top_n_sigma", 2.0),
    "top_k": ("top_k", 30),
    "typical_p": ("typical", 0.95, 2),
    "top_p": ("top_p", 0.9, 2),
    "min_p": ("min_p", 0.02, 2),
    "xtc": ("xtc", 1.0, 0.15, 2, 1),
    "temperature": ("temp_ext", 0.7, 0.3, 1.0),
}


@pytest.mark.parametrize("part", range(6))
def test_any_order_gives_what_llama_cpps_chain_gives(part: int) -> None:
    """Cases are the same in every run: in one of some thousands single precision decides an edge differently."""
    for seed in range(50 * part, 50 * (part + 1)):
        rng = np.random.default_rng(seed)
        order = [sorted(REFERENCES)[each] for each in rng.permutation(len(REFERENCES))]
        _compare_with_llama_cpps_chain(order[: rng.integers(1, 9)], seed)


def _compare_with_llama_cpps_chain(order: list[Step], seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = some_logits(seed, spread=float(rng.choice([0.5, 2, 5])))
    history = rng.integers(0, SIZE, 50).tolist()
    ids: NDArray[np.integer] = np.arange(SIZE)
    left = logits
    for step in order:
        kind, *arguments = REFERENCES[step]
        row = Row(left)
        with Reference(str(kind), *arguments) as reference:
            # Rows are renumbered as they shrink: forbidden tokens are no candidates in ours.
            places = {token: place for place, token in enumerate(ids.tolist())}
            if step == "penalties":
                unseen = len(places)
                reference.accept([places.get(token, unseen) for token in history])
            reference.apply(row)
        entries = row.entries[row.entries["logit"] > -np.inf]
        ids, left = ids[entries["id"]], entries["logit"].copy()
    ours = distribution(replace(ALL_ON, order=tuple(order)), logits, history)
    wanted = shares(ids, left)
    assert ours.keys() == wanted.keys(), (order, seed)
    assert ours == pytest.approx(wanted, abs=1e-5), (order, seed)


def test_temperature_first_is_a_plain_softmax() -> None:
    """OpenAI's meaning of top_p: the nucleus of the scaled distribution."""
    logits = some_logits()
    scaled = np.exp(logits.astype(np.float64) / 1.5)
    scaled /= scaled.sum()
    assert distribution(Sampling(temperature=1.5), logits) == pytest.approx(
        dict(enumerate(scaled.tolist())), abs=1e-6
    )
    order = np.argsort(-scaled)
    count = int(np.searchsorted(np.cumsum(scaled[order]), 0.6)) + 1
    nucleus = {int(i): scaled[i] / scaled[order[:count]].sum() for i in order[:count]}
    ours = distribution(Sampling(temperature=1.5, top_p=0.6), logits)
    assert ours == pytest.approx(nucleus, abs=1e-6)


def test_cutting_first_is_another_distribution() -> None:
    fields = Sampling(temperature=1.5, top_p=0.6)
    cut_first = distribution(replace(fields, order=CUT_FIRST), some_logits())
    assert len(cut_first) < len(distribution(replace(fields, order=SCALE_FIRST), some_logits()))


def test_a_step_that_is_not_named_does_not_act() -> None:
    everything = distribution(replace(ALL_ON, order=()), some_logits())
    assert everything == pytest.approx(distribution(Sampling(), some_logits()))


def test_biases_come_first_unless_the_order_has_a_place_for_them() -> None:
    biased = Sampling(order=("penalties",), repetition_penalty=2.0, logit_bias={0: 3.0, 1: -np.inf})
    for order, wanted in (((), 8), (("penalties",), 4), (("penalties", "logit_bias"), 5.5)):
        sampler = Sampler(replace(biased, order=order), 1, 0, 3)
        sampler.start([0, 1])
        row = sampler.admitted(np.array([5, 5, 5], np.float32), 0).logits
        assert row.tolist() == [wanted, -np.inf, 5]


def test_biases_hold_where_a_candidate_branches() -> None:
    """Of all steps it is the only one that does."""
    order: tuple[Step, ...] = ("penalties", "logit_bias")
    sampling = Sampling(order=order, repetition_penalty=9.0, logit_bias={2: 50.0})
    sampler = Sampler(sampling, 1, 0, 3)
    sampler.start([0])
    sampler.branch = 0
    row = np.array([5, 4, -9], np.float32)
    assert sampler.admitted(row.copy(), 0).logits.tolist() == [5, 4, 41]
    assert sampler.sample(row, 0) == 2


def test_neutral_fields_plan_nothing() -> None:
    assert plan(Sampling()) == ()
    assert plan(Sampling(order=(*CUT_FIRST, "adaptive_p"))) == ()


def test_every_step_has_a_place_in_the_table_and_a_meaning() -> None:
    assert {*CUT_FIRST, *SCALE_FIRST} < set(STEPS)
    assert set(CUT_FIRST) == set(SCALE_FIRST)
    assert all(info.meaning for info in STEPS.values())


def test_mirostat_takes_the_place_of_the_cuts() -> None:
    assert plan(replace(ALL_ON, mirostat=2)) == ("penalties", "temperature")


# --- greedy ---------------------------------------------------------------------------------------


def test_temperature_0_takes_the_likeliest_without_cutting_first() -> None:
    sampling = replace(ALL_ON, temperature=0.0, dynatemp_range=0.0, xtc_probability=0.0)
    assert plan(replace(sampling, typical_p=1.0, order=CUT_FIRST)) == ("penalties", "temperature")
    logits = some_logits()
    assert distribution(Sampling(temperature=0.0, top_k=5), logits) == {int(logits.argmax()): 1.0}


@given(st.permutations(sorted(REFERENCES)), st.integers(0, 10**6))
def test_temperature_0_is_the_likeliest_of_what_other_steps_leave(
    order: list[Step], seed: int
) -> None:
    """Steps after temperature cannot matter; XTC and typical before it can."""
    sampling = replace(ALL_ON, temperature=0.0, dynatemp_range=0.0, order=tuple(order))
    until = tuple(order[: order.index("temperature")])
    logits, history = some_logits(seed), [1, 2, 3]
    left = distribution(replace(sampling, order=until), logits, history)
    (token,) = distribution(sampling, logits, history)
    assert left[token] == max(left.values())


# --- the draw -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.6, top_p=0.9),
        Sampling(top_k=20, min_p=0.05, order=CUT_FIRST),
        Sampling(typical_p=0.7),
        Sampling(xtc_probability=0.5, xtc_threshold=0.05),
        Sampling(order=("adaptive_p",), adaptive_target=0.2, adaptive_decay=0.0),
    ],
)
@pytest.mark.parametrize("size", [30, 5000])
def test_draws_follow_the_distribution(sampling: Sampling, size: int) -> None:
    """Chi-square over the likeliest tokens and the rest as one; the seed is fixed, so it cannot flake."""
    logits = some_logits(1, size, 3.0)
    num_draws = 3000
    mass = np.zeros(size)
    drawn: list[int] = []
    for candidate in range(num_draws):
        sampler = Sampler(sampling, 11, candidate, size, keeps_distribution=True)
        drawn.append(sampler.sample(logits.copy(), 5))
        if candidate < 200:  # the distribution itself is random with XTC
            assert sampler.distribution is not None
            ids, weights = sampler.distribution
            mass[slice(None) if ids is None else ids] += weights / weights.sum(dtype=np.float64)
    expected = mass / 200
    binned = [t for t in np.argsort(-expected, kind="stable")[:15].tolist() if expected[t]]
    counts = np.array([drawn.count(t) for t in binned] + [0])
    counts[-1] = num_draws - counts.sum()
    wanted = np.array([expected[t] for t in binned] + [0.0]) * num_draws
    wanted[-1] = max(num_draws - wanted.sum(), 1e-9)
    is_rare = wanted < 5
    assert counts[is_rare].sum() <= wanted[is_rare].sum() + 5
    chi_square = ((counts - wanted) ** 2 / wanted)[~is_rare].sum()
    freedom = int((~is_rare).sum()) - 1
    spare = 150 if sampling.xtc_probability else 0  # there `expected` is an estimate itself
    assert chi_square < freedom + 4 * np.sqrt(2 * freedom) + 3 + spare


def test_a_draw_depends_on_seed_candidate_and_position_alone() -> None:
    logits = some_logits(spread=0.5)

    def drawn(seed: int, candidate: int, position: int) -> int:
        return Sampler(Sampling(), seed, candidate, SIZE).sample(logits.copy(), position)

    assert drawn(1, 2, 3) == drawn(1, 2, 3)
    several = {drawn(*key) for key in [(1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4)]}
    assert len(several) == 4


def test_xtc_does_not_draw_from_the_same_number_as_the_token() -> None:
    """Or the excluded and the kept texts would differ in more than the exclusion."""
    logits = np.array([2.0, 1.9, 0.0], np.float32)
    tokens = []
    for candidate in range(400):
        sampler = Sampler(Sampling(xtc_probability=0.5), 3, candidate, 3, keeps_distribution=True)
        tokens.append(sampler.sample(logits.copy(), 0))
        assert sampler.distribution is not None
    excluded = np.mean([token != 0 for token in tokens])
    alone = np.exp(logits) / np.exp(logits).sum()
    assert excluded == pytest.approx(0.5 + 0.5 * (1 - alone[0]), abs=0.07)


def test_temperatures_near_0_and_far_from_it() -> None:
    logits = some_logits(spread=30)
    assert set(distribution(Sampling(temperature=1e-6), logits)) == {int(logits.argmax())}
    flat = distribution(Sampling(temperature=1e9), logits)
    assert max(flat.values()) == pytest.approx(1 / SIZE, rel=1e-5)


# --- what may be drawn at all -----------------------------------------------------------------------


def drawable(
    sampling: Sampling, rules: TokenRules, position: int = 0, output: list[int] | None = None
) -> set[int]:
    sampler = Sampler(sampling, 1, 0, 6, rules, keeps_distribution=True)
    sampler.start([])
    for token in output or []:
        sampler.push(token)
    sampler.sample(np.zeros(6, np.float32), position)
    assert sampler.distribution is not None
    ids, weights = sampler.distribution
    return set((np.arange(6) if ids is None else ids)[weights > 0].tolist())


def test_bias_and_bans() -> None:
    logits = np.zeros(4, np.float32)
    biased = distribution(Sampling(logit_bias={1: 2.0, 2: float("-inf")}), logits)
    total = 2 + np.exp(2.0)
    assert biased == pytest.approx({0: 1 / total, 1: np.exp(2.0) / total, 3: 1 / total})


def test_a_bias_comes_before_penalties() -> None:
    """As in llama.cpp and vLLM: a biased logit is penalised as it then is."""
    sampling = Sampling(logit_bias={0: -3.0}, repetition_penalty=2.0)
    ours = distribution(sampling, np.array([1.0, 0.0], np.float32), [0])
    assert ours[0] / ours[1] == pytest.approx(np.exp(-4.0))


def test_only_allowed_tokens() -> None:
    assert drawable(Sampling(), TokenRules(allowed=np.array([1, 3]))) == {1, 3}
    assert drawable(Sampling(top_p=0.5), TokenRules(allowed=np.array([1]))) == {1}


def test_bad_words() -> None:
    rules = TokenRules(bad_words=((0,), (1, 2), (1, 1, 3)))
    assert drawable(Sampling(), rules) == {1, 2, 3, 4, 5}
    assert drawable(Sampling(), rules, output=[4, 1]) == {1, 3, 4, 5}
    assert drawable(Sampling(), rules, output=[1, 1]) == {1, 4, 5}
    assert drawable(Sampling(), rules, output=[1, 1, 4]) == {1, 2, 3, 4, 5}


def test_no_end_before_min_tokens() -> None:
    rules = TokenRules(ends=frozenset({4, 5}), stops=frozenset({0}))
    sampling = Sampling(min_tokens=2)
    found = [drawable(sampling, rules, position) for position in range(3)]
    assert found == [{1, 2, 3}, {1, 2, 3}, {0, 1, 2, 3, 4, 5}]


def test_ignored_ends_are_not_drawn_unless_they_are_stop_tokens() -> None:
    rules = TokenRules(ends=frozenset({4, 5}), stops=frozenset({4}), ignores_ends=True)
    assert drawable(Sampling(ignore_eos=True), rules) == {0, 1, 2, 3, 4}


def test_a_complete_constraint_may_end_all_the_same() -> None:
    """Its mask leaves only an end token; min_tokens and ignore_eos must give way."""
    for sampling in (Sampling(min_tokens=9), Sampling(ignore_eos=True)):
        rules = TokenRules(ends=frozenset({4, 5}), ignores_ends=sampling.ignore_eos)
        logits = np.full(6, -np.inf, np.float32)
        logits[5] = -3.0
        assert Sampler(sampling, 1, 0, 6, rules).sample(logits, 0) == 5


def test_infill_ends_only_where_the_end_may_be_drawn() -> None:
    """No text is likely enough to go on with; the end is not even among the candidates."""
    rules = TokenRules(ends=frozenset({10}), end=10, texts=NUMBERS)
    logits = np.zeros(11, np.float32)
    logits[[3, 10]] = 0.1, -30.0
    sampling = Sampling(order=("top_k", "infill"), top_k=8)
    assert Sampler(sampling, 1, 0, 11, rules).sample(logits.copy(), 0) == 10
    assert Sampler(replace(sampling, min_tokens=1), 1, 0, 11, rules).sample(logits, 0) == 3


def test_nothing_left_to_draw_is_an_error() -> None:
    banned = Sampling(logit_bias=dict.fromkeys(range(6), float("-inf")))
    for sampling in (
        banned,
        replace(banned, temperature=0.0),
        replace(banned, top_k=2, mirostat=1),
    ):
        with pytest.raises(InvalidField, match="every token is forbidden"):
            Sampler(sampling, 1, 0, 6).sample(np.zeros(6, np.float32), 0)


@settings(max_examples=150)
@given(
    st.permutations(sorted(set(STEPS))),
    st.integers(0, 2),
    st.integers(1, 20),
    st.integers(0, 10**6),
)
def test_forbidden_tokens_are_never_drawn(
    order: list[Step], mirostat: int, num_allowed: int, seed: int
) -> None:
    """Whatever the steps and their order: a constraint's mask holds."""
    rng = np.random.default_rng(seed)
    allowed = set(rng.choice(SIZE, num_allowed, replace=False).tolist())
    sampling = replace(
        ALL_ON, order=tuple(order), mirostat=mirostat, adaptive_target=0.3, dry_multiplier=0.8
    )
    rules = TokenRules(ends=frozenset({0, 1}), end=1, texts=NUMBERS)
    sampler = Sampler(sampling, seed, 0, SIZE, rules)
    sampler.start(rng.integers(0, SIZE, 30).tolist())
    for position in range(5):
        logits = np.full(SIZE, -np.inf, np.float32)
        logits[list(allowed)] = rng.normal(0, 3, num_allowed)
        token = sampler.sample(logits, position)
        assert token in allowed
        sampler.push(token)


def test_dry_acts_on_what_was_pushed() -> None:
    """A sampler that repeats itself is stopped from it."""
    sampling = Sampling(temperature=0.0, dry_multiplier=5.0, dry_allowed_length=1)
    sampler = Sampler(sampling, 1, 0, 3)
    sampler.start([])
    text = []
    for position in range(8):
        row = np.zeros(3, np.float32)
        row[position % 2] = 1.0
        text.append(sampler.sample(row, position))
        sampler.push(text[-1])
    pairs = list(pairwise(text))
    assert text[:3] == [0, 1, 0]
    assert len(set(pairs[:4])) == 4


def test_ends_may_be_drawn_where_every_token_is_one() -> None:
    for first, size in ((0, 6), (0, 3), (2, 4)):
        rules = TokenRules(ends=frozenset(range(first, first + size)), ignores_ends=True)
        found = drawable(Sampling(ignore_eos=True), rules)
        assert found == ({*range(6)} - rules.ends or {*range(6)})
