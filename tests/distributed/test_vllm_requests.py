"""Where a request is prepared: on the event loop if that is quick, else on a thread."""

import asyncio
import threading
from typing import Any

import pytest
from msgspec.structs import replace

from segue.distributed import vllm_requests
from segue.distributed.vllm import VllmEngine
from segue.distributed.vllm_requests import is_quick
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

    class Watched(vllm_requests.VllmRequests):
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
