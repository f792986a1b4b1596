"""Steps begun ahead on the real kernels: answers with every sampler and constraints are those of single steps."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.engine.seam import AdaptiveState, Draw, Loaded, Runner, Span
from segue.runners.cpu.runner import CpuRunner
from segue.types import (
    CUT_FIRST,
    SCALE_FIRST,
    CompletionRequest,
    Constraint,
    Sampling,
    Step,
    Trigger,
)
from tests.engine.harness import Bench, ask
from tests.engine.scheduling.ahead_runner import same
from tests.engine.test_same_bytes import empty, load, write_plain
from tests.runners.cpu.conftest import be_patient

WORDS = (" the", " and", "rain", " an", "other", ", ", "é", "then ")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    folder = tmp_path_factory.mktemp("ahead")
    write_plain(folder)
    loaded = load(folder, 9, context_length=256)
    yield loaded
    loaded.runner.close()


CONSTRAINTS = (
    Constraint(kind="regex", value="[a-z ]{5,40}[.!]"),
    Constraint(kind="regex", value="((north|south) of [a-z]{1,6}, ){1,5}"),
    Constraint(
        kind="json_schema",
        value="""{"type": "object", "properties": {"name": {"type": "string", "maxLength": 5},
        "age": {"enum": [1, "twenty"]}}, "required": ["name", "age"], "additionalProperties": false}""",
    ),
    Constraint(
        kind="gbnf",
        value='root ::= [a-z] " is what " [a-z ]+ "."',
        triggers=(Trigger("pattern", r"[^a-z]([a-z])"),),
    ),
)


ORDERS: list[tuple[Step, ...]] = [
    ("dry", "penalties", "logit_bias", "temperature", "top_k", "xtc"),
    ("top_k", "dry", "temperature", "logit_bias", "penalties", "top_p"),
    ("xtc", "dry", "top_n_sigma", "penalties", "typical_p"),
    ("dry", "penalties", "top_k", "infill", "temperature"),
    ("penalties", "temperature", "top_p", "adaptive_p"),
    ("penalties", "temperature", "top_p", "adaptive_p"),
    ("temperature", "typical_p", "temperature", "xtc", "min_p", "xtc", "adaptive_p"),
    ("min_p", "infill", "temperature", "adaptive_p"),
]


def penalised(draw: random.Random) -> CompletionRequest:
    sampling = Sampling(
        order=draw.choice([SCALE_FIRST, CUT_FIRST, *ORDERS]),
        temperature=draw.choice([0.0, 0.7, 1.0]),
        dynatemp_range=draw.choice([0.0, 0.0, 0.4, 0.7]),
        dynatemp_exponent=draw.choice([1.0, 1.0, 0.0, 5.0]),
        top_k=draw.choice([0, 5, 40]),
        top_p=draw.choice([0.5, 0.9, 1.0]),
        min_p=draw.choice([0.0, 0.0, 0.05]),
        min_keep=draw.choice([0, 0, 3]),
        typical_p=draw.choice([1.0, 1.0, 0.7]),
        top_n_sigma=draw.choice([0.0, 0.0, 1.5]),
        xtc_probability=draw.choice([0.0, 0.0, 0.5]),
        xtc_threshold=draw.choice([0.1, 0.01]),
        mirostat=draw.choice([0, 0, 0, 1, 2]),
        mirostat_tau=draw.choice([5.0, 2.0]),
        mirostat_eta=draw.choice([0.1, 1.0]),
        adaptive_target=draw.choice([-1.0, 0.3, 0.8]),
        adaptive_decay=draw.choice([0.9, 0.0]),
        seed=draw.randint(0, 1000),
        repetition_penalty=draw.choice([1.0, 1.1, 1.5, 0.8]),
        presence_penalty=draw.choice([0.0, 0.5, -0.5]),
        frequency_penalty=draw.choice([0.0, 0.25, 1.5]),
        penalty_window=draw.choice([-1, 0, 1, 2, 7, 64, 5000]),
        penalize_prompt=draw.choice([False, True]),
        repetition_last=draw.choice([False, True]),
        dry_multiplier=draw.choice([0.0, 0.0, 0.8, 9.0]),
        dry_allowed_length=draw.choice([0, 1, 2]),
        dry_window=draw.choice([-1, -1, 1, 64]),
        dry_sequence_breakers=draw.choice([("\n", ":"), ("an", "e"), ()]),
        logit_bias=draw.choice([{}, {}, {97: 5.0, 101: -np.inf}]),
        min_tokens=draw.choice([0, 6]),
        ignore_eos=draw.choice([False, False, True]),
        stop_token_ids=draw.choice([(), (), (101,)]),
        bad_words=draw.choice([(), (), ("an", "so ", "the", "aa"), ("rain", "north", "a b")]),
        allowed_token_ids=draw.choice([*[None] * 5, (97,), (*range(90, 120),), (*range(10, 250),)]),
    )
    return ask(
        "".join(draw.choices(WORDS, k=draw.randint(1, 20))),
        sampling=sampling,
        max_tokens=draw.choice([draw.randint(1, 40), 90]),
        stop=draw.choice([(), (), ("an", "q")]),
        logprobs=draw.choice([None, 0, 3]),
        post_sampling_probs=draw.choice([False, False, True]),
        n=draw.choice([1, 1, 3]),
        use_cache=draw.choice([True, False]),
    )


def held(draw: random.Random) -> CompletionRequest:
    """Half of them without penalties, or with no setting at all: then forced tokens are taken together."""
    request = penalised(draw)
    plain = Sampling(seed=draw.randint(0, 1000), temperature=draw.choice([0.0, 0.7]))
    sampling = draw.choice([request.sampling, plain])
    constraint = draw.choice([None, *CONSTRAINTS])
    scores = draw.choice([request.logprobs, None])
    return msgspec.structs.replace(
        request, sampling=sampling, constraint=constraint, logprobs=scores
    )


def single_steps(runner: CpuRunner, loaded: Loaded) -> Bench:
    """A bench that begins no step ahead, and whose tokens are all drawn by the sampler."""
    limits = runner._capabilities
    runner._capabilities = replace(limits, rows_ahead=0, draws=False)
    bench = Bench(runner, loaded.vocab)
    runner._capabilities = limits
    return bench


@pytest.mark.parametrize("kind", [penalised, held])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(2, 8))
def test_answers_are_those_of_single_steps(
    loaded: Loaded, kind: Callable[[random.Random], CompletionRequest], seed: int, count: int
) -> None:
    """Together some need more memory than there is, and are preempted."""
    runner = loaded.runner
    assert isinstance(runner, CpuRunner)
    draw = random.Random(seed)
    asked = [kind(draw) for _ in range(count)]
    alone = []
    for request in asked:
        alone += single_steps(runner, loaded).run(request)
        empty(loaded)
    crowd = Bench(runner, loaded.vocab)
    crowd.may_go_on = lambda: draw.random() < 0.9
    for request in asked:
        crowd.submit(request)
        for _ in range(draw.randint(0, 3)):
            crowd.step()
    crowd.run()
    empty(loaded)
    together = [crowd.stories[request.request_id] for request in asked]
    assert [same(story) for story in together] == [same(story) for story in alone]


ODD = {
    "mirostat": Sampling(seed=1, mirostat=2, mirostat_tau=3.0, mirostat_eta=1.0),
    "adaptive-p": Sampling(
        seed=1, adaptive_target=0.3, order=("penalties", "min_p", "temperature", "adaptive_p")
    ),
    "dynamic temperature": Sampling(seed=1, dynatemp_range=0.7, dry_multiplier=0.8, min_p=0.02),
}


@pytest.mark.parametrize("kind", ODD)
def test_preempted_candidates_with_all_at_once_go_on_as_alone(loaded: Loaded, kind: str) -> None:
    """A constraint, feedback, penalties, biases, stop strings and scores, in candidates that do not fit together."""
    runner = loaded.runner
    assert isinstance(runner, CpuRunner)
    more = {
        "frequency_penalty": 0.3,
        "logit_bias": {97: 2.0, 101: -np.inf},
        "bad_words": ("th", "an"),
    }
    asked = ask(
        "so",
        sampling=msgspec.structs.replace(ODD[kind], **more),
        constraint=Constraint(kind="regex", value="[a-z ]{200}"),
        stop=("qzx",),
        n=3,
        logprobs=2,
        post_sampling_probs=True,
        max_tokens=90,
    )
    others = [msgspec.structs.replace(asked, request_id=f"{kind} {number}") for number in range(2)]
    [alone] = single_steps(runner, loaded).run(asked)
    empty(loaded)
    crowd = Bench(runner, loaded.vocab)
    together = crowd.run(*others)
    empty(loaded)
    assert crowd.scheduler.stats.preemptions > 0
    assert all(len(tokens) > 50 for tokens in alone.tokens.values())
    assert [same(story) for story in together] == [same(alone)] * 2


def watched(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> list[Draw]:
    """The draws of all steps that are begun from now on."""
    begin = runner.begin
    told: list[Draw] = []

    def watching(spans: Sequence[Span], draws: Sequence[Draw]) -> None:
        told.extend(draws)
        begin(spans, draws)

    monkeypatch.setattr(runner, "begin", watching)
    return told


def test_a_penalised_request_goes_ahead(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = loaded.runner
    told = watched(runner, monkeypatch)
    sampling = Sampling(seed=1, frequency_penalty=0.5, repetition_penalty=1.2, ignore_eos=True)
    [story] = Bench(runner, loaded.vocab).run(ask("so", sampling=sampling, max_tokens=30))
    empty(loaded)
    assert len(story.tokens[0]) == 30
    repeats = [draw.repeats for draw in told if draw.repeats is not None]
    assert len([each for each in repeats if each.drawn is not None]) > 15


def test_a_request_with_dry_goes_ahead(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = loaded.runner
    assert isinstance(runner, CpuRunner)
    be_patient(runner)
    told = watched(runner, monkeypatch)
    sampling = Sampling(seed=1, dry_multiplier=9.0, dry_allowed_length=0, ignore_eos=True)
    [story] = Bench(runner, loaded.vocab).run(ask("so", sampling=sampling, max_tokens=30))
    empty(loaded)
    assert len(story.tokens[0]) == 30
    what = [draw.late.told for draw in told if draw.late is not None]
    assert len([each for each in what if each is not None and each.costs is not None]) > 15


FEEDBACK = {
    "mirostat 1": Sampling(seed=1, mirostat=1, mirostat_tau=3.0, ignore_eos=True),
    "mirostat 2": Sampling(seed=1, mirostat=2, mirostat_tau=3.0, ignore_eos=True),
    "adaptive-p": Sampling(seed=1, adaptive_target=0.3, order=("adaptive_p",), ignore_eos=True),
}


@pytest.mark.parametrize("kind", FEEDBACK)
def test_a_request_with_feedback_goes_ahead(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Mu, or the sum of adaptive-p, goes from draw to draw: Python learns of it later."""
    runner = loaded.runner
    told = watched(runner, monkeypatch)
    [story] = Bench(runner, loaded.vocab).run(ask("so", sampling=FEEDBACK[kind], max_tokens=30))
    empty(loaded)
    assert len(story.tokens[0]) == 30
    states = [draw.feedback for draw in told if draw.feedback is not None]
    assert len([each for each in states if each.drawn is not None]) > 15
    numbers = {each.sum if isinstance(each, AdaptiveState) else each.mu for each in states}
    assert len(numbers) > 15


def test_a_request_with_infill_goes_ahead(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    """As llama.vim asks: the texts of tokens are told with each draw, and are made once."""
    runner = loaded.runner
    told = watched(runner, monkeypatch)
    sampling = Sampling(seed=1, top_k=40, order=("top_k", "infill"), ignore_eos=True)
    [story] = Bench(runner, loaded.vocab).run(ask("so", sampling=sampling, max_tokens=30))
    empty(loaded)
    assert len(story.tokens[0]) == 30
    assert len(told) > 15
    assert len({draw.texts for draw in told}) == 1


def test_a_request_with_a_constraint_goes_ahead(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = loaded.runner
    assert isinstance(runner, CpuRunner)
    be_patient(runner)
    told = watched(runner, monkeypatch)
    sampling = Sampling(seed=1, temperature=0.9)
    word = Constraint(kind="regex", value="[a-z ]{200}")
    [story] = Bench(runner, loaded.vocab).run(
        ask("so", sampling=sampling, constraint=word, max_tokens=30)
    )
    empty(loaded)
    assert len(story.tokens[0]) == 30
    assert len([draw for draw in told if draw.late is not None]) > 15
