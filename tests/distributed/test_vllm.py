"""The engine over a stand-in for vLLM: its story must be the one our own engine tells."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from segue.distributed.hang_watch import WARM_STEPS
from segue.distributed.launch import Launched, parse_options
from segue.distributed.vllm import VllmEngine
from segue.engine.constraints.compiler import Compiler, Grammar
from segue.errors import Incompatible, InvalidField, ModelUnavailable, Unavailable, Unsupported
from segue.runners.fake import FakeRunner, default_capabilities
from segue.types import (
    Adapter,
    Constraint,
    Delta,
    Infill,
    Prompt,
    Repetition,
    Sampling,
    Shift,
    SlotAction,
    Truncation,
)
from tests.distributed.harness import GREEDY, rounded, run, started, told
from tests.distributed.stand_in import StandIn
from tests.engine.harness import Bench, RequestEvents, ask

REQUESTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "one token": {"max_tokens": 1},
    "until the context is full": {"max_tokens": None},
    "scored": {"logprobs": 3},
    "echo": {"echo": True, "logprobs": 2, "prompt_logprobs": 2},
    "echo, nothing generated": {
        "echo": True,
        "logprobs": 1,
        "prompt_logprobs": 1,
        "max_tokens": 0,
    },
    "more alternatives than tokens": {"logprobs": 999, "prompt_logprobs": 999},
    "prompt scored without alternatives": {"prompt_logprobs": 0, "max_tokens": 0, "n": 2},
    "choices": {"n": 3, "logprobs": 0},
    "ranked": {"n": 2, "best_of": 4},
    "stop": {"stop": ("e", "t"), "logprobs": 1},
    "stop shown": {"stop": ("e", "t"), "include_stop": True},
    "indent": {"min_indent": 4},
    "repetitions": {"max_tokens": 40, "repetition": Repetition(max_size=16)},
    "progress": {"report_progress": True},
    "infill": {"infill": Infill(suffix=Prompt(("after",)))},
    "beams": {"beam_search": True, "n": 3, "logprobs": 2},
    "beams of another length": {"beam_search": True, "best_of": 3, "length_penalty": -2.0},
    "truncated": {"truncation": Truncation(max_tokens=4)},
    "middles ranked": {"infill": Infill(suffix=Prompt(("after",)), mode="ranked"), "n": 2},
    "middles ranked and scored": {
        "infill": Infill(suffix=Prompt((" the end",)), mode="ranked"),
        "logprobs": 2,
        "best_of": 3,
        "use_cache": False,
    },
}


@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("name", REQUESTS)
def test_it_tells_the_story_of_our_own_engine(
    name: str, stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("events", "prepare"):  # so that all are known, as on our own engine
        monkeypatch.setattr(f"segue.distributed.request.{module}.WATCHED_TOP", 512)

    async def check() -> None:
        limits = default_capabilities(context_length=64)
        request = ask("Hello there", "the other", sampling=GREEDY, **REQUESTS[name])
        [expected] = Bench(FakeRunner(limits)).run(request)
        async with started(StandIn(stride=stride, context_length=64)) as engine:
            story = await told(engine, request)
        assert rounded(story.essence) == rounded(expected.essence)
        for index, prompted in expected.prompted.items():
            got = story.prompted[index]
            assert (got.tokens, got.text, got.num_dropped, got.infill) == (
                prompted.tokens,
                prompted.text,
                prompted.num_dropped,
                prompted.infill,
            )
            assert rounded([*(got.scores or ())]) == rounded([*(prompted.scores or ())])
        assert story.done is not None
        assert story.done.seed == 7

    run(check())


DRAWN_HERE: dict[str, dict[str, Any]] = {
    "typical_p": {"typical_p": 0.4},
    "xtc": {"xtc_probability": 0.7, "xtc_threshold": 0.02},
    "dry": {"dry_multiplier": 2.0, "dry_allowed_length": 1},
    "mirostat 1": {"mirostat": 1, "mirostat_tau": 2.0},
    "mirostat 2": {"mirostat": 2, "mirostat_tau": 2.0},
    "adaptive_p": {"order": ("temperature", "adaptive_p"), "adaptive_target": 0.3},
    "dynatemp": {"dynatemp_range": 0.5},
    "min_keep": {"top_p": 0.1, "min_keep": 5},
    "penalty_window": {"repetition_penalty": 1.5, "frequency_penalty": 1.0, "penalty_window": 4},
    "penalize_prompt": {"presence_penalty": 1.5, "penalize_prompt": True},
    "penalties after a cut": {
        "order": ("top_k", "penalties", "temperature"),
        "top_k": 4,
        "presence_penalty": 2.0,
    },
    "a step named twice": {
        "order": ("temperature", "top_p", "temperature"),
        "temperature": 0.8,
        "top_p": 0.9,
    },
    "hot": {"temperature": 3.0, "top_k": 20},
    "top_p 0": {"top_p": 0.0},
}


@pytest.mark.parametrize("name", DRAWN_HERE)
def test_steps_that_vllm_lacks_draw_what_our_own_engine_draws(name: str) -> None:
    """Given the same logits, the same seed and the same position, the tokens are the same."""

    async def check() -> None:
        sampling = Sampling(seed=11, **DRAWN_HERE[name])
        request = ask("so it was and so it is", n=2, max_tokens=24, sampling=sampling)
        [expected] = Bench(FakeRunner(default_capabilities())).run(request)
        async with started(StandIn(stride=3)) as engine:
            story = await told(engine, request)
        assert story.texts == expected.texts
        assert story.texts[0] != story.texts[1] or name in ("top_p 0",)

    run(check())


def test_a_priority_and_an_adapter_are_handed_over() -> None:
    async def check() -> None:
        llm = StandIn()
        llm.limits = replace(llm.limits, has_priorities=True)
        llm.adapters = {"poet": "vLLM's own request"}
        async with started(llm) as engine:
            adapters = (Adapter("poet", 1.0),)
            story = await told(engine, ask("x", priority=-3, adapters=adapters, sampling=GREEDY))
            assert story.done
            half = await told(engine, ask("x", adapters=(Adapter("poet", 0.5),)))
        assert (llm.asked[0]["priority"], llm.asked[0]["lora_request"]) == (
            -3,
            "vLLM's own request",
        )
        assert half.failed is not None
        assert half.failed.param == "lora"

    run(check())


def test_constraints_are_compiled_on_threads_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes for ever took a thread of all other requests."""
    names: list[str] = []
    compile_now = Compiler.compile

    def compile_later(compiler: Compiler, constraint: Constraint) -> Grammar:
        if compiler.known(constraint) is None:
            names.append(threading.current_thread().name)
        return compile_now(compiler, constraint)

    monkeypatch.setattr(Compiler, "compile", compile_later)

    async def check() -> None:
        async with started(StandIn()) as engine:
            constraint = Constraint(kind="choice", value=("ab",))
            for _ in range(2):
                assert (await told(engine, ask("x", constraint=constraint))).done

    run(check())
    assert names == ["compiler"]


def test_a_constraint_on_a_ranked_middle_is_refused() -> None:
    async def check() -> None:
        async with started(StandIn()) as engine:
            infill = Infill(suffix=Prompt(("after",)), mode="ranked")
            constraint = Constraint(kind="regex", value="a+")
            story = await told(engine, ask("x", infill=infill, constraint=constraint))
        assert story.failed is not None
        assert (story.failed.code, story.failed.param) == (InvalidField.code, "grammar")

    run(check())


def test_a_prompt_is_told_of_before_its_choices() -> None:
    async def check() -> None:
        async with started(StandIn()) as engine:
            story = await told(engine, ask("one", "two", n=3, sampling=GREEDY))
        for place, event in enumerate(story.events):
            if isinstance(event, Delta):
                before = story.events[:place]
                assert story.prompted[event.choice // 3] in before

    run(check())


def test_an_answer_that_may_shift_ends_where_the_context_is_full() -> None:
    async def check() -> None:
        for max_tokens, shift in ((None, Shift(optional=True)), (5, Shift())):
            async with started(StandIn()) as engine:
                asked: dict[str, Any] = {"max_tokens": max_tokens, "sampling": GREEDY}
                plain = await told(engine, ask("x", **asked))
                [end] = plain.finished.values()
                assert end.cause == ("context" if max_tokens is None else "max_tokens")
                assert (await told(engine, ask("x", shift=shift, **asked))).essence == plain.essence

    run(check())


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"sampling": Sampling(order=("infill",))}, InvalidField.code, "samplers"),
        ({"priority": 1}, InvalidField.code, "priority"),
        ({"beam_search": True, "n": 129}, InvalidField.code, "n"),
        ({"post_sampling_probs": True}, InvalidField.code, "post_sampling_probs"),
        ({"shift": Shift(), "max_tokens": None}, InvalidField.code, "shift"),
        ({"constraint": Constraint(kind="regex", value="(")}, InvalidField.code, "grammar"),
        ({"sampling": Sampling(logit_bias={999: 1.0})}, InvalidField.code, "logit_bias"),
    ],
)
def test_refusals_are_failures_that_name_the_field(
    fields: dict[str, Any], code: str, param: str
) -> None:
    async def check() -> None:
        async with started(StandIn()) as engine:
            story = await told(engine, ask("x", **fields))
            assert engine.is_idle
            assert (await engine.stats()).failed == 1
        assert story.failed is not None
        assert (story.failed.code, story.failed.param) == (code, param)

    run(check())


def test_a_prompt_that_leaves_no_room_is_refused() -> None:
    async def check() -> None:
        async with started(StandIn(context_length=8)) as engine:
            story = await told(engine, ask([65] * 8, max_tokens=0))
        assert story.failed is not None
        assert story.failed.details == {"n_prompt_tokens": 8, "n_ctx": 8}

    run(check())


def test_closing_the_stream_aborts_every_candidate() -> None:
    async def check() -> None:
        llm = StandIn()
        llm.pause = asyncio.Event()
        async with started(llm) as engine:
            events = engine.submit(ask("one", n=3, max_tokens=50, sampling=GREEDY))
            await anext(events)
            while len(llm.open) < 3:
                await asyncio.sleep(0)
            assert not engine.is_idle
            await events.aclose()
            assert engine.is_idle
            assert llm.open == set()
            assert (await engine.stats()).cancelled == 1

    run(check())


@pytest.mark.parametrize("hangs", [False, True])
def test_a_death_or_a_hang_ends_streams_and_is_mended(
    hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("segue.distributed.vllm._LOOK_S", 0.01)
    monkeypatch.setattr("segue.distributed.vllm.next_pause", lambda *_: 0.0)

    async def check() -> None:
        engines = [StandIn(), StandIn()]
        engines[0].pause = asyncio.Event()
        waiting: Iterator[StandIn | Exception]
        waiting = iter([engines[0], ModelUnavailable("no"), engines[1]])

        async def launch() -> Launched:
            following = next(waiting)
            if isinstance(following, Exception):
                raise following
            return following.launched()

        engine = VllmEngine(launch, step_timeout_s=0.05)
        await engine.start()
        events = engine.submit(ask("one", max_tokens=50, sampling=GREEDY))
        await anext(events)
        if hangs:
            engines[0].gauges.steps, engines[0].step = WARM_STEPS, asyncio.Event()
        else:
            engines[0].errored = True
            with pytest.raises(Unavailable):
                await engine.stats()
        story = RequestEvents()
        async for event in events:
            story.push(event)
        assert story.failed is not None
        assert story.failed.code == "engine_died"
        assert story.failed.retry_after_s
        while True:  # it comes back by itself
            try:
                stats = await engine.stats()
                break
            except Unavailable:
                await asyncio.sleep(0.01)
        assert engines[0].is_shut_down
        assert stats.restarts == 2
        assert (await told(engine, ask("two", sampling=GREEDY))).done
        await engine.close()
        assert engines[1].is_shut_down

    run(check())


def test_closing_lets_requests_finish_for_a_while() -> None:
    async def check() -> None:
        llm = StandIn()
        llm.pause = asyncio.Event()
        async with started(llm) as engine:
            slow, fast = (asyncio.create_task(told(engine, ask("x"))) for _ in range(2))
            while len(llm.open) < 2:
                await asyncio.sleep(0)
            closing = asyncio.create_task(engine.close(drain_s=20))
            await asyncio.sleep(0)
            with pytest.raises(Unavailable):
                await told(engine, ask("y"))
            llm.pause.set()
            await closing
        assert (await slow).done
        assert (await fast).done

    run(check())


def test_tokens_and_pieces() -> None:
    async def check() -> None:
        async with started(StandIn()) as engine:
            tokens = await engine.tokenize("ab", True, True)
            assert await engine.pieces(tokens) == [b"a", b"b"]
            assert await engine.lists() == {}
            with pytest.raises(Unsupported, match="vLLM holds what prompts were computed to"):
                await engine.act_on_slot(SlotAction(verb="erase", slot=0))
            with pytest.raises(InvalidField):
                await engine.pieces([99999])

    run(check())


def test_engine_arguments_of_vllm() -> None:
    known = {"dtype", "tensor_parallel_size", "enforce_eager"}
    options = ("dtype=float32", "tensor-parallel-size=2", "enforce_eager=true")
    parsed = {"dtype": "float32", "tensor_parallel_size": 2, "enforce_eager": True}
    assert parse_options(options, known) == parsed
    for wrong in ("dtype", "colour=red"):
        with pytest.raises(Incompatible, match="NAME=VALUE"):
            parse_options((wrong,), known)
