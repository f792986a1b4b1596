"""Where a request is prepared: on the event loop if that is quick, else on a thread. And what is refused then."""

import asyncio
import dataclasses
import threading
from typing import Any

import pytest
from msgspec.structs import replace

from segue.distributed.request.prepare import VllmRequests, is_quick
from segue.distributed.vllm import VllmEngine
from segue.errors import InvalidField
from segue.types import Constraint, Infill, Prompt, Sampling
from tests.distributed.stand_in import StandIn
from tests.engine.harness import ask

SLOW: dict[str, dict[str, Any]] = {
    "text": {"prompts": (Prompt(("x" * 1025,)),)},
    "two texts": {"prompts": (Prompt(("x" * 600,)), Prompt(("y" * 600,)))},
    "ids": {"prompts": (Prompt((tuple(range(4097)),)),)},
    "choices": {"n": 9},
    "infill": {"infill": Infill(suffix=Prompt(("x",)))},
    "constraint": {"constraint": Constraint(kind="regex", value="a", param="guided_regex")},
    "bad words": {"sampling": Sampling(bad_words=("x",))},
    "biases of texts": {"sampling": Sampling(text_bias=(("x", 1.0),))},
    "sequence breakers": {"sampling": Sampling(dry_multiplier=0.5)},
}


@pytest.mark.parametrize("fields", SLOW.values(), ids=list(SLOW))
def test_what_takes_long_is_not_quick(fields: dict[str, Any]) -> None:
    assert not is_quick(replace(ask("x"), **fields))


@pytest.mark.parametrize(
    "fields",
    [{}, {"n": 8}, {"prompts": (Prompt(("x" * 1024, tuple(range(4096)))),)}, {"stop": ("x",)}],
    ids=["plain", "choices", "long", "stop"],
)
def test_what_is_quick(fields: dict[str, Any]) -> None:
    assert is_quick(replace(ask("x"), **fields))


@pytest.mark.parametrize(("text", "is_on_loop"), [("x", True), ("x" * 2000, False)])
def test_a_quick_request_does_not_wait_for_a_thread(
    monkeypatch: pytest.MonkeyPatch, text: str, is_on_loop: bool
) -> None:
    threads: list[int] = []

    class Watched(VllmRequests):
        def prepare(self, *args: Any) -> Any:
            threads.append(threading.get_ident())
            return super().prepare(*args)

    monkeypatch.setattr("segue.distributed.vllm.VllmRequests", Watched)

    async def scenario() -> None:
        async def launch() -> Any:
            return StandIn().launched()

        engine = VllmEngine(launch)
        await engine.start()
        async for _ in engine.submit(ask(text, max_tokens=1)):
            pass
        await engine.close()

    asyncio.run(scenario())
    assert [thread == threading.get_ident() for thread in threads] == [is_on_loop]


CUTS_FIRST = Sampling(temperature=0.7, top_p=0.9, order=("top_p", "temperature"))


def test_an_order_that_needs_a_processor_is_refused_where_vllm_takes_none() -> None:
    """As its first model runner while it speculates."""
    launched = dataclasses.replace(StandIn().launched(), can_draw=False, can_cut=False)
    requests = VllmRequests(launched)
    with pytest.raises(InvalidField, match="speculative_config"):
        requests.prepare(ask("x", sampling=CUTS_FIRST))
    with pytest.raises(InvalidField, match="speculative_config"):
        requests.prepare(ask("x", sampling=Sampling(typical_p=0.5)))
    for fields in (
        {"sampling": replace(CUTS_FIRST, order=("temperature", "top_p"))},
        {"sampling": replace(CUTS_FIRST, temperature=0.0)},
        {"sampling": CUTS_FIRST, "max_tokens": 0},
    ):
        assert requests.prepare(ask("x", **fields))


def test_a_token_that_the_weights_do_not_know_is_refused() -> None:
    """A tokenizer with more tokens than the model has embeddings: vLLM's engine would die of it."""
    stand_in = StandIn()
    stand_in.limits = dataclasses.replace(stand_in.limits, vocab_size=100)
    requests = VllmRequests(stand_in.launched())
    assert requests.prepare(ask("a b", sampling=Sampling(temperature=0.0)))
    with pytest.raises(InvalidField, match="token id 122, but the model's ids are 0 to 99"):
        requests.prepare(ask("a z"))
