"""How texts end: by a constraint, at a dead end, and where vLLM gives a request up."""

from typing import Any

import pytest

from segue.distributed.logits.own_draws import unpack
from segue.distributed.request.mapping import DRAW_KEY
from segue.errors import EngineFault
from segue.runners.fake import EOS, FakeRunner, default_capabilities
from segue.types import Constraint, Infill, Prompt, Repetition, Sampling
from tests.distributed.harness import GREEDY, run, started, told
from tests.distributed.stand_in import StandIn
from tests.engine.harness import Bench, ask


@pytest.mark.parametrize(
    ("script", "cause"), [(b"ab", "constraint"), (bytes([97]), "dead_end"), (b"abc", "constraint")]
)
def test_the_end_of_a_constraint(script: bytes, cause: str) -> None:
    """vLLM draws the end token where nothing may follow, met or not."""

    async def check() -> None:
        constraint = Constraint(kind="choice", value=("ab",))
        llm = StandIn(script)
        if cause == "dead_end":
            constraint = Constraint(kind="regex", value="b+")
        async with started(llm) as engine:
            bias = {EOS: 1000.0} if cause == "dead_end" else {}
            sampling = Sampling(temperature=0.0, logit_bias=bias)
            story = await told(engine, ask("x", sampling=sampling, constraint=constraint))
        assert story.finished[0].cause == cause
        assert llm.asked[0]["grammar"].startswith("%llguidance {}\nstart:")

    run(check())


def test_a_text_whose_constraint_is_not_followed_ends_as_vllm_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To follow it took seconds: whether its constraint is met is not known."""
    monkeypatch.setattr("segue.engine.constraints.compiler._SLOW_S", -1.0)

    async def check() -> None:
        constraint = Constraint(kind="regex", value="b+")
        async with started(StandIn(b"a")) as engine:
            sampling = Sampling(temperature=0.0, logit_bias={EOS: 1000.0})
            story = await told(engine, ask("x", sampling=sampling, constraint=constraint))
        assert story.finished[0].cause == "eos"

    run(check())


@pytest.mark.parametrize(("value", "cause"), [("abc", "dead_end"), ("ab(c)?", "constraint")])
@pytest.mark.parametrize("stride", [1, 3])
def test_where_bans_leave_nothing_of_a_constraint(value: str, cause: str, stride: int) -> None:
    """vLLM draws what is forbidden, then. It is no part of the text, which ends as on our own engine."""

    async def check() -> None:
        llm = StandIn(b"ab!", stride)
        llm.refused = frozenset(b"!")
        sampling = Sampling(seed=7, temperature=0.0, allowed_token_ids=tuple(b"ab"))
        constraint = Constraint(kind="regex", value=value)
        request = ask("x", sampling=sampling, constraint=constraint)
        [expected] = Bench(FakeRunner(default_capabilities(), b"ab!")).run(request)
        async with started(llm) as engine:
            story = await told(engine, request)
        assert (story.texts[0], story.finished[0].cause) == ("ab", cause)
        assert story.essence == expected.essence

    run(check())


AT_ONCE: dict[str, dict[str, Any]] = {
    "max_tokens": {"max_tokens": 3},
    "repetition": {"repetition": Repetition(max_size=1, min_count=2)},
    "stop": {"stop": ("bb",)},
    "time": {"time_limit_s": -1.0},
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_what_ends_a_text_where_its_constraint_does(name: str) -> None:
    """The cause is the one of our own engine."""

    async def check() -> None:
        text = "ab\n" if name == "time" else "abb"
        script, constraint = text.encode(), Constraint(kind="choice", value=(text,))
        request = ask("x", sampling=GREEDY, constraint=constraint, **AT_ONCE[name])
        [expected] = Bench(FakeRunner(default_capabilities(), script)).run(request)
        async with started(StandIn(script)) as engine:
            story = await told(engine, request)
        assert story.finished[0].cause == expected.finished[0].cause
        assert story.essence == expected.essence

    run(check())


def test_half_a_character_of_a_constraint_is_left_out() -> None:
    async def check() -> None:
        constraint = Constraint(kind="regex", value="é+")
        request = ask("x", constraint=constraint, sampling=GREEDY, max_tokens=3)
        script = "é".encode()
        [expected] = Bench(FakeRunner(default_capabilities(), script)).run(request)
        async with started(StandIn(script)) as engine:
            story = await told(engine, request)
        assert story.texts == expected.texts == {0: "é"}

    run(check())


def _is_probe(params: dict[str, Any]) -> bool:
    packed = (params.get("extra_args") or {}).get(DRAW_KEY)
    return packed is not None and bool(unpack(packed).forced)


@pytest.mark.parametrize(
    ("fields", "which"),
    [
        ({}, None),
        ({"max_tokens": 0}, None),
        ({"beam_search": True, "n": 2}, None),
        ({"infill": Infill(suffix=Prompt((" the end",)), mode="ranked")}, _is_probe),
    ],
)
def test_what_vllm_gives_up_is_a_fault(fields: dict[str, Any], which: Any) -> None:
    """Neither the client's fault, nor an answer with less in it."""

    async def check() -> None:
        llm = StandIn()
        llm.gives_up = which or (lambda params: True)
        async with started(llm) as engine:
            story = await told(engine, ask("x", **fields))
        assert story.failed is not None
        assert (story.failed.code, story.failed.message) == (
            EngineFault.code,
            "vLLM ended the request: abort",
        )

    run(check())
