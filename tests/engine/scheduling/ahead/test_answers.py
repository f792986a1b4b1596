"""Steps begun ahead: answers and events are those of single steps."""

import random
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.engine.seam import Logits
from segue.runners.fake import EOS, FakeRunner, default_capabilities
from segue.types import (
    CUT_FIRST,
    CompletionRequest,
    Constraint,
    Infill,
    Prompt,
    Repetition,
    Sampling,
    Step,
)
from tests.engine.harness import Bench, ask
from tests.engine.scheduling.ahead_runner import AheadRunner, arrive, check_answers, runner, same
from tests.engine.scheduling.guesses import guess, texts

WORD = Constraint(kind="regex", value="[a-d]{3,9}", param="regex")
ORDERS: list[tuple[Step, ...]] = [
    CUT_FIRST,
    ("dry", "penalties", "logit_bias", "temperature", "top_k", "xtc"),
    ("top_k", "dry", "temperature", "penalties", "logit_bias", "top_p"),
    ("xtc", "dry", "top_n_sigma", "penalties", "typical_p"),
    ("top_k", "top_p") * 5 + ("temperature",),
    ("penalties", "top_k", "penalties", "temperature"),
    ("dry", "penalties", "top_k", "infill", "temperature"),
    ("top_p", "infill", "penalties", "temperature"),
    ("penalties", "temperature", "min_p", "adaptive_p"),
]
SUFFIX = Infill(suffix=Prompt(("ba, and é",)), mode="ranked")


@st.composite
def samplings(draw: st.DrawFn) -> Sampling:
    picked = st.sampled_from
    return Sampling(
        seed=draw(st.integers(0, 1000)),
        temperature=draw(picked([0.0, 0.7, 1.0])),
        dynatemp_range=draw(picked([0.0, 0.0, 0.5])),
        top_k=draw(picked([0, 0, 20])),
        top_p=draw(picked([1.0, 0.8])),
        min_p=draw(picked([0.0, 0.1])),
        order=draw(picked([Sampling().order] * 3 + ORDERS)),
        typical_p=draw(picked([1.0, 1.0, 0.6])),
        top_n_sigma=draw(picked([0.0, 0.0, 1.5])),
        xtc_probability=draw(picked([0.0, 0.0, 0.5, 1.0])),
        xtc_threshold=draw(picked([0.1, 0.03])),
        mirostat=draw(picked([*[0] * 5, 1, 2])),
        mirostat_tau=draw(picked([5.0, 1.0])),
        adaptive_target=draw(picked([-1.0, 0.3])),
        repetition_penalty=draw(picked([1.0, 1.0, 1.2])),
        presence_penalty=draw(picked([0.0, 0.0, 0.0, 1.5, -0.7])),
        frequency_penalty=draw(picked([0.0, 0.0, 0.0, 0.4])),
        penalty_window=draw(picked([-1, -1, 0, 1, 2, 9, 64])),
        penalize_prompt=draw(st.booleans()),
        repetition_last=draw(st.booleans()),
        dry_multiplier=draw(picked([0.0, 0.0, 0.8, 9.0, -0.5])),
        dry_allowed_length=draw(picked([0, 1, 2])),
        dry_window=draw(picked([-1, -1, 1, 5, 64])),
        dry_sequence_breakers=draw(picked([("\n",), ("a", "so"), ()])),
        ignore_eos=draw(st.booleans()),
        min_tokens=draw(picked([0, 0, 5])),
        logit_bias=draw(picked([{}, {}, {101: 5.0, EOS: -100.0}, {0: -np.inf, 65: -np.inf}])),
        bad_words=draw(picked([(), (), ("e",), ("e", "th"), ("aa", "ab", "bba")])),
        stop_token_ids=draw(picked([(), (), (101,)])),
        allowed_token_ids=draw(picked([*[None] * 5, (65, 66, EOS), (*range(60, 200),)])),
    )


@st.composite
def requests(draw: st.DrawFn) -> CompletionRequest:
    """Mostly what can go ahead; some of everything that cannot."""
    picked = st.sampled_from
    kind = draw(picked([*["plain"] * 6, "scored", "held", "best", "beams", "ranked"]))
    sampling = draw(samplings())
    fields: dict[str, Any] = {
        "max_tokens": draw(picked([0, 1, 5, 30])),
        "n": draw(picked([1, 1, 1, 2, 3])),
        "use_cache": draw(picked([True, True, False])),
        "tenant": draw(picked(["", "a", "b"])),
        "sampling": sampling,
    }
    if kind != "beams":
        fields["repetition"] = draw(picked([None, None, Repetition(max_size=3)]))
        fields["stop"] = tuple(draw(st.lists(picked(["a", "th", " "]), max_size=2)))
    match kind:
        case "scored":
            fields |= {"logprobs": 2, "prompt_logprobs": draw(picked([None, 1]))}
            fields |= {"post_sampling_probs": draw(st.booleans())}
        case "held":
            fields |= {"constraint": WORD}
            sampling = msgspec.structs.replace(sampling, allowed_token_ids=None)
            fields |= {"sampling": sampling}
        case "best":
            fields |= {"n": 1, "best_of": 3}
        case "beams":
            fields |= {"beam_search": True, "n": 2, "max_tokens": 6, "sampling": Sampling(seed=1)}
        case "ranked":
            fields |= {"infill": SUFFIX, "max_tokens": 8}
    text = st.text(alphabet="abé", min_size=1, max_size=20)
    return ask(draw(text) * draw(picked([1, 3])), **fields)


@settings(max_examples=20, deadline=None)
@given(asked=st.lists(requests(), min_size=1, max_size=6), seed=st.integers(0, 2**32))
def test_answers_and_events_are_those_of_single_steps(
    asked: list[CompletionRequest], seed: int
) -> None:
    """With little memory, arrivals and cancels between steps, and draws that the runner leaves to the sampler."""
    end_bias = random.Random(seed).choice([0.0, 2.0])
    alone, singles = {}, []
    for request in asked:
        singles.append(Bench(runner(end_bias=end_bias, context_length=100, rows_ahead=0)))
        alone[request.request_id] = singles[-1].run(request)[0]
    for can_give_back in (0, 1, 9):
        chance = random.Random(seed + can_give_back)
        crowd = some_crowd(chance, end_bias, can_give_back)
        guess(crowd, texts(singles), chance)
        cancelled = arrive(crowd, asked, chance, most_steps=4)
        crowd.run()
        crowd.scheduler.check()
        check_answers(crowd, alone, cancelled)


def some_crowd(chance: random.Random, end_bias: float, can_give_back: int) -> Bench:
    limits: dict[str, Any] = {
        "num_slots": chance.randint(3, 12),
        "num_cells": chance.randint(110, 400),
        "context_length": 100,
        "rows_ahead": chance.choice([1, 4, 16]),
    }
    skips = chance.choice([0, 2, 7])
    crowd = Bench(runner(skips=skips, end_bias=end_bias, can_give_back=can_give_back, **limits))
    crowd.may_go_on = lambda: chance.random() < 0.9
    return crowd


@pytest.mark.parametrize("bias", [22.0, 24.0, 26.0])
def test_the_markers_of_infill_end_a_middle_ahead_too(bias: float) -> None:
    """llama.cpp's infill sampler looks at ends: with FIM tokens, these end a middle as an end token does."""
    sampling = Sampling(seed=1, order=("infill", "temperature"), logit_bias={262: bias})
    for number in range(10):
        middle = Infill(suffix=Prompt((")",)))
        asked = ask(f"def f{number}(", sampling=sampling, infill=middle, max_tokens=30)
        ran = runner()
        [ahead], [single] = Bench(ran).run(asked), Bench(runner(rows_ahead=0)).run(asked)
        assert ran.num_begun[False] > 0
        assert same(ahead) == same(single)


@pytest.mark.parametrize("can_give_back", [0, 1, 9])
@pytest.mark.parametrize("skips", [0, 1, 3])
def test_nothing_is_left_in_memory(skips: int, can_give_back: int) -> None:
    """Void rows too: of a stop string, of an end token, of a draw that the sampler makes."""
    ran = runner(skips=skips, end_bias=4.0, can_give_back=can_give_back)
    bench = Bench(ran)
    sampling = Sampling(seed=3, temperature=1.0)
    bench.run(
        *(
            ask(f"{i}", sampling=sampling, stop=("a",), max_tokens=50, use_cache=False)
            for i in range(9)
        )
    )
    bench.scheduler.check()
    assert ran.num_ahead > 0
    assert ran.cells_free == ran.capabilities.num_cells


@pytest.mark.parametrize("can_give_back", [0, 1, 9])
def test_what_was_computed_can_be_shared_afterwards(can_give_back: int) -> None:
    """A slot with a row too many is cut back before it becomes a cached prefix."""
    ran = runner(script=b"ab stop here and more", can_give_back=can_give_back)
    bench = Bench(ran)
    greedy = Sampling(seed=1, temperature=0.0)
    [first] = bench.run(ask("x", sampling=greedy, stop=("stop",), max_tokens=30))
    read = "x" + first.texts[0] + ("stop" if can_give_back else "")
    again = ask(read, sampling=greedy, max_tokens=9)
    [second] = bench.run(again)
    assert second.prompted[0].num_cached >= len(read) - 1
    assert (
        second.essence == Bench(FakeRunner(script=b"ab stop here and more")).run(again)[0].essence
    )


class Broken(AheadRunner):
    """Now and then a row is not made of numbers."""

    def _rows(self, ends: Any) -> Logits:
        rows = super()._rows(ends)
        for row, (slot, end) in zip(rows, ends, strict=True):
            if slot.states[end] % 29 == 0:
                row[slot.states[end] % 7] = np.nan
        return rows


@settings(max_examples=15, deadline=None)
@given(samplings=st.lists(samplings(), min_size=1, max_size=5))
def test_a_row_that_is_not_made_of_numbers_fails_the_same_request(
    samplings: list[Sampling],
) -> None:
    asked = [ask(f"{n}abc", sampling=each, max_tokens=25) for n, each in enumerate(samplings)]
    limits = replace(default_capabilities(rows_ahead=16), draws=True)
    alone = [
        Bench(Broken(replace(limits, rows_ahead=0), 0, 0.0, None)).run(request)[0]
        for request in asked
    ]
    together = Bench(Broken(limits, 0, 0.0, None)).run(*asked)
    assert [same(story) for story in together] == [same(story) for story in alone]
