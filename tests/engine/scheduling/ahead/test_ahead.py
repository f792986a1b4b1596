"""Steps begun ahead: what can be told ahead, and what waits for the open step."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from segue.engine.seam import Step
from segue.runners.fake import EOS, default_capabilities
from segue.types import (
    Constraint,
    Infill,
    Prompt,
    Repetition,
    Sampling,
)
from tests.engine.harness import Bench, ask, ticking
from tests.engine.scheduling.ahead_runner import AheadRunner, plain, runner, same

WORD = Constraint(kind="regex", value="[a-d]{3,9}", param="regex")
SUFFIX = Infill(suffix=Prompt(("ba, and é",)), mode="ranked")


def test_a_decoding_batch_goes_ahead_to_its_end() -> None:
    ran = runner(draft_rows=1)
    bench = Bench(ran)
    stories = bench.run(*(plain(number) for number in range(5)))
    assert all(len(story.tokens[0]) == 20 for story in stories)
    assert ran.num_begun == {False: 1, True: 19}, "all but the first, which reads the prompts"
    assert bench.num_steps == 20
    assert ran.num_rows == sum(len(f"{n} says: ") for n in range(5)) + 5 * 19, "no row too many"


def test_sequences_that_end_together_leave_the_others_going() -> None:
    ran = runner(draft_rows=1)
    lengths = [5, 9, 9, 30]
    stories = Bench(ran).run(*(plain(n, max_tokens=many) for n, many in enumerate(lengths)))
    assert [len(story.tokens[0]) for story in stories] == lengths
    assert ran.num_rows == 4 * len("0 says: ") + sum(many - 1 for many in lengths)
    assert ran.num_begun == {False: 1, True: 29}


CANNOT: dict[str, dict[str, Any]] = {
    "penalties twice": {
        "sampling": Sampling(seed=1, frequency_penalty=0.5, order=("penalties", "penalties"))
    },
    "infill before penalties": {
        "sampling": Sampling(seed=1, presence_penalty=0.5, order=("infill", "penalties"))
    },
    "beam search": {"beam_search": True, "n": 2, "sampling": Sampling(seed=1)},
    "ranked middles": {"infill": SUFFIX},
}


@pytest.mark.parametrize("kind", CANNOT)
def test_what_cannot_be_told_ahead_is_not(kind: str) -> None:
    ran = runner()
    Bench(ran).run(plain(0, **CANNOT[kind]))
    assert not ran.num_begun


CAN: dict[str, dict[str, Any]] = {
    "greedy": {"sampling": Sampling(seed=1, temperature=0.0)},
    "filters": {"sampling": Sampling(seed=1, top_k=20, top_p=0.9, min_p=0.01)},
    "bias": {"sampling": Sampling(seed=1, logit_bias={101: 3.0, 102: -np.inf})},
    "bans": {"sampling": Sampling(seed=1, bad_words=("e", "t"))},
    "dry": {"sampling": Sampling(seed=1, dry_multiplier=5.0, dry_allowed_length=0)},
    "penalties after a cut": {
        "sampling": Sampling(
            seed=1, top_k=20, frequency_penalty=0.5, order=("top_k", "penalties", "temperature")
        )
    },
    "dry before penalties": {
        "sampling": Sampling(
            seed=1, presence_penalty=0.5, dry_multiplier=0.5, order=("dry", "penalties")
        )
    },
    "dry after a cut": {
        "sampling": Sampling(seed=1, top_k=20, dry_multiplier=0.5, order=("top_k", "dry"))
    },
    "typical-p, top-nσ and xtc": {
        "sampling": Sampling(seed=1, typical_p=0.9, top_n_sigma=2.0, xtc_probability=0.5)
    },
    "dynamic temperature": {"sampling": Sampling(seed=1, dynatemp_range=0.3)},
    "infill": {"sampling": Sampling(seed=1, top_k=9, order=("top_k", "infill", "temperature"))},
    "infill, a list, bias, penalties and a constraint": {
        "constraint": WORD,
        "sampling": Sampling(
            seed=1,
            presence_penalty=0.5,
            logit_bias={98: 3.0},
            allowed_token_ids=(*range(90, 110), EOS),
            order=("penalties", "infill"),
        ),
    },
    "scores of a distribution": {"logprobs": 1, "post_sampling_probs": True},
    "scores of a distribution, mirostat and a constraint": {
        "constraint": WORD,
        "logprobs": 3,
        "post_sampling_probs": True,
        "sampling": Sampling(seed=1, mirostat=2, mirostat_tau=2.0, presence_penalty=0.5),
    },
    "mirostat 1": {"sampling": Sampling(seed=1, mirostat=1)},
    "adaptive-p": {"sampling": Sampling(seed=1, adaptive_target=0.3, order=("adaptive_p",))},
    "adaptive-p, and scores of its distribution": {
        "logprobs": 1,
        "post_sampling_probs": True,
        "sampling": Sampling(seed=1, adaptive_target=0.3, order=("adaptive_p",)),
    },
    "mirostat 2, penalties, banned phrases and a constraint": {
        "constraint": WORD,
        "n": 2,
        "sampling": Sampling(
            seed=1, mirostat=2, mirostat_tau=2.0, presence_penalty=0.5, bad_words=("aa", "ab")
        ),
    },
    "penalties, dry, phrases, a list, bias and a constraint": {
        "constraint": WORD,
        "n": 2,
        "sampling": Sampling(
            seed=1,
            presence_penalty=0.5,
            dry_multiplier=2.0,
            dry_allowed_length=1,
            dry_sequence_breakers=("d",),
            bad_words=("aa", "ab"),
            allowed_token_ids=(*range(90, 110), EOS),
            logit_bias={98: 3.0},
        ),
    },
    "banned phrases": {"sampling": Sampling(seed=1, bad_words=("ab", "e", "the"))},
    "banned phrases, penalties, filters and a constraint": {
        "constraint": WORD,
        "n": 2,
        "sampling": Sampling(
            seed=1, top_k=9, repetition_penalty=1.3, bad_words=("aa", "ab", "bcd", "c")
        ),
    },
    "min_tokens": {"sampling": Sampling(seed=1, min_tokens=7)},
    "no ends, and no token 0": {
        "sampling": Sampling(seed=1, ignore_eos=True, logit_bias={0: -np.inf})
    },
    "only some tokens": {"sampling": Sampling(seed=1, allowed_token_ids=(66, 65, EOS))},
    "only an end, which is banned too": {
        "sampling": Sampling(seed=1, ignore_eos=True, allowed_token_ids=(EOS,))
    },
    "only some tokens, filters, penalties, bias and a constraint": {
        "constraint": WORD,
        "sampling": Sampling(
            seed=1,
            top_p=0.9,
            presence_penalty=0.5,
            logit_bias={98: 3.0, 97: -np.inf},
            allowed_token_ids=(*range(90, 99), EOS),
        ),
    },
    "a repetition penalty": {"sampling": Sampling(seed=1, repetition_penalty=1.3)},
    "presence and frequency penalties": {
        "sampling": Sampling(seed=1, presence_penalty=0.5, frequency_penalty=0.5, penalty_window=1)
    },
    "penalties, filters, bias and scores": {
        "logprobs": 2,
        "n": 2,
        "sampling": Sampling(
            seed=1,
            top_k=20,
            repetition_penalty=1.3,
            frequency_penalty=0.5,
            penalty_window=4,
            penalize_prompt=True,
            logit_bias={101: 9.0, 102: -np.inf},
        ),
    },
    "stops": {"stop": ("th", "xyz")},
    "repetitions": {
        "repetition": Repetition(max_size=2),
        "sampling": Sampling(seed=1, logit_bias={97: 9.0, 98: 9.0}),
    },
    "several": {"n": 3},
    "logprobs": {"logprobs": 2},
    "logprobs under a bias": {
        "logprobs": 2,
        "sampling": Sampling(seed=1, logit_bias={101: 9.0, 102: -np.inf}),
    },
    "a scored prompt": {"logprobs": 2, "prompt_logprobs": 1},
    "best_of": {"best_of": 3, "n": 2},
    "echo": {"echo": True},
    "a constraint": {"constraint": WORD},
    "a constraint, filters, penalties, bias and scores": {
        "constraint": WORD,
        "logprobs": 2,
        "n": 2,
        "sampling": Sampling(
            seed=1, top_k=20, min_p=0.01, presence_penalty=0.5, logit_bias={98: 3.0, 99: -np.inf}
        ),
    },
    "a constraint whose end is banned": {
        "constraint": WORD,
        "sampling": Sampling(seed=1, ignore_eos=True, min_tokens=5),
    },
}


@pytest.mark.parametrize("kind", CAN)
def test_what_can_be_told_ahead_is(kind: str) -> None:
    request = plain(5, **{"max_tokens": 12, **CAN[kind]})
    ran = runner(draft_rows=1, end_bias=2.0)
    [story] = Bench(ran).run(request)
    assert ran.num_ahead > 0
    [single] = Bench(runner(rows_ahead=0, end_bias=2.0)).run(request)
    assert same(story) == same(single)


def test_more_rows_than_the_runner_takes_ahead_are_single_steps() -> None:
    ran = runner(rows_ahead=4)
    Bench(ran).run(*(plain(number) for number in range(5)))
    assert not ran.num_begun


def test_draws_that_the_runner_never_makes_are_seldom_asked_for() -> None:
    """Each costs a row that is computed in vain."""
    never, seldom = runner(skips=1, draft_rows=1), runner(skips=20, draft_rows=1)
    for ran in (never, seldom):
        Bench(ran).run(plain(1, max_tokens=200))
    assert never.num_begun.total() <= 200 // 8 + 2
    assert seldom.num_ahead > 150


def test_what_repeats_itself_is_drafted() -> None:
    """Drafts give several tokens a step, so a step for one token is not begun ahead of them."""
    request = plain(0, sampling=Sampling(seed=1, temperature=0.0), max_tokens=200)
    ran, single = (runner(script=b"0123456789", rows_ahead=rows) for rows in (16, 0))
    benches = [ticking(Bench(ran)), ticking(Bench(single))]
    ahead, alone = (same(bench.run(request)[0]) for bench in benches)
    assert ahead == alone
    assert ran.num_ahead > 0
    assert benches[0].num_steps <= benches[1].num_steps + 10 < 200 / 3


def test_a_full_server_goes_ahead_with_a_queue() -> None:
    ran = runner(num_slots=2, draft_rows=1)
    stories = Bench(ran).run(*(plain(number, use_cache=False) for number in range(6)))
    assert all(story.done for story in stories)
    # A prompt is not followed ahead while others wait: one of them might start.
    assert ran.num_ahead == 18 + 18 + 19


def test_prompts_are_begun_and_the_next_step_follows_once_they_are_read() -> None:
    ran = runner(draft_rows=1)
    bench = Bench(ran, chunk_rows=16)
    running, late = plain(1, max_tokens=200), plain(2, max_tokens=20)
    bench.submit(running)
    turns = iter([True] * 5 + [False])
    bench.may_go_on = lambda: next(turns)
    bench.step()
    long = msgspec.structs.replace(late, prompts=(Prompt(("z" * 40,)),))
    bench.submit(long)
    bench.may_go_on = lambda: True
    begun = ran.num_begun.copy()
    bench.step()
    bench.step()
    assert ran.num_begun - begun == {False: 2}, "the chunks; what comes after is not told yet"
    bench.run()
    for request in (running, long):
        alone = Bench(runner(rows_ahead=0)).run(request)[0]
        assert same(bench.stories[request.request_id]) == same(alone)
    assert ran.num_begun[False] == 4


def test_an_unexpected_end_leaves_the_others_going() -> None:
    """The row of the one that ended is void; nobody waits for its slot, so no step has to be waited for."""
    ran = runner(script=b"0123456789ab stop here and more", draft_rows=1)
    stop = plain(1, stop=("stop",), sampling=Sampling(seed=1, temperature=0.0))
    others = [plain(n, sampling=Sampling(seed=1, temperature=0.0)) for n in (2, 3)]
    bench = Bench(ran)
    stories = bench.run(stop, *others)
    assert [len(story.tokens[0]) < 20 for story in stories] == [True, False, False]
    assert ran.num_begun == {False: 1, True: 19}
    bench.scheduler.check()
    assert bench.scheduler.stats.stepped == sum(len(story.tokens[0]) for story in stories)


def test_cells_are_not_evicted_for_a_step_ahead() -> None:
    """With no cell free the open step is ended first; then cached prefixes go."""
    ran = runner(num_cells=48, context_length=40, draft_rows=1)
    bench = Bench(ran)
    bench.run(*(plain(number, max_tokens=2) for number in range(3)))  # fills the cache
    [story] = bench.run(plain(7, max_tokens=25))
    assert len(story.tokens[0]) == 25
    assert bench.scheduler.stats.evictions > 0
    assert ran.num_ahead > 10


# --- between open steps ---


def test_a_message_waits_for_the_open_step_only() -> None:
    ran = runner()
    bench = Bench(ran)
    running = plain(1, max_tokens=500)
    bench.submit(running)
    turns = iter([True] * 10 + [False])
    bench.may_go_on = lambda: next(turns)
    bench.step()
    assert ran.num_ahead == 10
    bench.scheduler.cancel(running.request_id)
    bench.scheduler.check()
    assert bench.scheduler.is_idle
    assert not bench.step()


def test_a_failure_during_an_open_step_fails_its_request_alone() -> None:
    """Every token of it may be the one: its slots are freed once the open step has ended, and the others go on."""
    others = [plain(number) for number in range(1, 4)]
    alone = {r.request_id: Bench(runner(rows_ahead=0)).run(r)[0] for r in others}
    for nth in range(1, 20):
        ran = runner()
        bench = Bench(ran)
        unlucky = plain(0, n=2, use_cache=False)
        for request in (unlucky, *others):
            bench.submit(request)
        job = bench.scheduler._state.jobs[unlucky.request_id]
        sequence = job.sequences[0]
        accept = sequence.accept

        def accepted(*args: Any, nth: int = nth, to: Any = sequence, accept: Any = accept) -> None:
            if to.num_output + 1 == nth:
                raise ValueError("text that cannot be")
            accept(*args)

        sequence.accept = accepted  # type: ignore[assignment, method-assign]
        bench.run()
        assert bench.stories[unlucky.request_id].failed is not None
        for request in others:
            assert same(bench.stories[request.request_id]) == same(alone[request.request_id])
        bench.scheduler.check()


def test_events_of_a_step_come_before_the_next_one_is_ended() -> None:
    class Watched(AheadRunner):
        def end(self) -> Step:
            assert len(bench.stories["r"].tokens[0]) == bench.num_steps
            return super().end()

    limits = replace(default_capabilities(rows_ahead=16), draws=True)
    ran = Watched(limits, 0, 0.0, None)
    bench = Bench(ran)
    bench.run(msgspec.structs.replace(plain(3), request_id="r"))
    assert ran.num_ahead > 0


def test_figures_count_every_step_and_no_void_row() -> None:
    sums = []
    for rows_ahead in (0, 16):
        bench = Bench(runner(rows_ahead=rows_ahead, draft_rows=1, end_bias=2.5))
        sampling = Sampling(seed=8, temperature=1.0)
        bench.run(*(ask(f"{i}", sampling=sampling, max_tokens=30) for i in range(6)))
        stats = bench.scheduler.stats
        sums.append(
            (
                stats.stepped,
                stats.completion_tokens,
                stats.prompt_tokens,
                stats.finished,
                stats.longest,
            )
        )
        assert stats.steps == bench.num_steps
    assert sums[0] == sums[1]
