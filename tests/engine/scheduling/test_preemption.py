"""Preemption takes a sequence's KV and nothing else: whatever a request asks for, its answer is that without."""

import random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.engine.scheduling.batch import Batch
from segue.types import CompletionRequest, Constraint, Progress, Repetition, Trigger
from tests.engine.harness import Bench, ask
from tests.engine.scheduling.ahead.test_answers import requests
from tests.engine.scheduling.ahead_runner import check_answers, runner
from tests.engine.scheduling.guesses import guess, texts

# What the model says, most of the time; None: anything.
SCRIPTS = (None, b"ab", b"the cat the hat ", b"    it is\n  then\n", "é–x".encode())
CONSTRAINTS = (
    None,
    None,
    None,
    Constraint(kind="regex", value="(ab|the cat the hat |.){2,50}", param="regex"),
    Constraint(kind="gbnf", value='root ::= ("the " ("cat " | "hat ") | "a" "b"?){20}', param="grammar"),
    Constraint(kind="json_schema", value='{"properties": {"name": {"enum": ["cat", "hat"]}}, "required": ["name"]}'),
    Constraint(kind="gbnf", value='root ::= ("a" | "t") "b"* "the end"', triggers=(Trigger("pattern", "([at])b?"),)),
)  # fmt: skip
REPETITIONS = (
    None,
    Repetition(max_size=2, min_count=7),
    Repetition(max_size=9, min_size=2, min_count=5),
    Repetition(max_size=20, min_size=7),
)
STOPS = ((), (), (), ("the ha",), ("t the", "–x"), ("it is\n", "babab"))


# Preemptions of a crowd: one that reads its text in small chunks would never come to an end.
MOST = 25


@st.composite
def anything(draw: st.DrawFn) -> CompletionRequest:
    """A request with much that is remembered from token to token, whose answer mostly is long."""
    request, picked = draw(requests()), st.sampled_from
    if request.beam_search or request.infill:
        return msgspec.structs.replace(request, max_tokens=draw(picked([6, 15])))
    sampling = msgspec.structs.replace(
        request.sampling,
        min_tokens=draw(picked([0, 4, 9, 15])),
        ignore_eos=draw(picked([True, True, False])),
        stop_token_ids=(),
        allowed_token_ids=None,
        text_bias=draw(picked([(), (("the", 1.5), ("é", -2.0))])),
    )
    return msgspec.structs.replace(
        request,
        sampling=sampling,
        max_tokens=draw(picked([20, 50])),
        constraint=draw(picked(CONSTRAINTS)),
        repetition=draw(picked(REPETITIONS)),
        stop=draw(picked(STOPS)),
        include_stop=draw(st.booleans()),
        show_special=draw(st.booleans()),
        score_stops=draw(st.booleans()),
        echo=draw(st.booleans()),
        min_indent=draw(picked([0, 0, 3])),
        logprobs=draw(picked([request.logprobs, 1])),
        prompt_logprobs=draw(picked([None, 2])),
    )


def preempt(crowd: Bench, chance: random.Random) -> int:
    """Take the slots of some that run, any of them, between two steps. How many."""
    running = crowd.scheduler._state.running
    victims = [sequence for sequence in running if chance.random() < 0.3]
    for sequence in victims:
        crowd.scheduler._planner._preempt(Batch(), sequence)
    crowd.scheduler.check()
    return len(victims)


@settings(max_examples=20, deadline=None)
@given(
    asked=st.lists(anything(), min_size=1, max_size=3),
    script=st.sampled_from(SCRIPTS),
    can_give_back=st.sampled_from([0, 0, 1, 9]),
    rows_ahead=st.sampled_from([0, 16]),
    seed=st.integers(0, 2**32),
)
def test_answers_are_those_without_preemption(
    asked: list[CompletionRequest],
    script: bytes | None,
    can_give_back: int,
    rows_ahead: int,
    seed: int,
) -> None:
    alone, singles = {}, []
    limits: dict[str, Any] = {"script": script, "context_length": 100}
    for request in asked:
        singles.append(Bench(runner(**limits, rows_ahead=0, draft_rows=1)))
        alone[request.request_id] = singles[-1].run(request)[0]
    chance = random.Random(seed)
    crowd = Bench(
        runner(
            **limits,
            rows_ahead=rows_ahead,
            can_give_back=can_give_back,
            skips=chance.choice([0, 7]),
        ),
        chunk_rows=chance.choice([5, 64]),
    )
    crowd.may_go_on = lambda: chance.random() < 0.5
    guess(crowd, texts(singles), chance)
    for request in asked:
        crowd.submit(request)
    num_preempted = 0
    while crowd.step() or crowd.scheduler.awaits_mask:
        if num_preempted < MOST:
            num_preempted += preempt(crowd, chance)
    assert crowd.scheduler.stats.preemptions == num_preempted
    check_answers(crowd, alone, set())


def test_progress_never_goes_back() -> None:
    """A client draws a bar of it. What the cache had at first, and is gone by then, stays told too."""
    bench = Bench(chunk_rows=10)
    shared = "x" * 40
    bench.run(ask(shared, max_tokens=1))
    request = ask(shared + "y" * 60, report_progress=True, max_tokens=2)
    bench.submit(request)
    for _ in range(3):
        bench.step()
    [reading] = bench.scheduler._state.running
    assert 40 < reading.computed < 100
    bench.scheduler._planner._preempt(Batch(), reading)
    bench.scheduler._state.memory.forget(frozenset({str(reading.salt)}))
    bench.run()
    story = bench.stories[request.request_id]
    steps = [event for event in story.events if isinstance(event, Progress)]
    read = [step.num_read for step in steps]
    assert read == sorted(set(read)), "each tells of more"
    assert read[0] == 40
    assert read[-1] == 100
    assert {step.num_cached for step in steps} == {40}
    seconds = [step.prompt_s for step in steps]
    assert seconds == sorted(seconds)
    assert story.done is not None
    assert story.done.usage.cached_tokens == story.prompted[0].num_cached == 40


def test_a_prompt_that_is_read_takes_the_cells_of_those_that_came_later() -> None:
    """The first is read in chunks. The others have begun meanwhile, and their texts grow into its cells."""
    asked = [
        ask("p0" + "x" * 48, max_tokens=3),
        ask("p1" + "x" * 21, max_tokens=27, n=3),
        ask("p2" + "x" * 11, max_tokens=36),
    ]
    crowd = Bench(chunk_rows=8, num_slots=8, num_cells=64, context_length=64)
    together = crowd.run(*asked)
    assert crowd.scheduler.stats.preemptions > 0
    assert [one.essence for one in together] == [Bench().run(one)[0].essence for one in asked]
