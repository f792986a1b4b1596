import asyncio
from typing import Any

import pytest

from segue.distributed.request.events import Output
from segue.distributed.request.follow import Ask, Refused, follow
from tests.distributed.stand_in import Dead, StandIn

PARAMS = {"max_tokens": 5, "prompt_logprobs": None}


def ask(max_tokens: int = 5) -> Ask:
    return Ask("r-0-0", [1, 2], {**PARAMS, "max_tokens": max_tokens})


@pytest.mark.parametrize("stride", [1, 2, 10])
def test_every_output_is_taken_once(stride: int) -> None:
    """Those too that came before vLLM said that the request was added."""
    taken: list[int] = []

    def take(output: Output) -> bool:
        taken.extend(output.outputs[0].token_ids)
        return False

    llm = StandIn(script=b"abcde", stride=stride)
    asyncio.run(follow(llm, ask(), take))
    assert bytes(taken) == b"bcdea"  # the script goes on behind the prompt
    assert llm.open == set()


def test_enough_is_enough() -> None:
    """What is not wanted any more is aborted."""
    llm = StandIn(script=b"abcde")
    asyncio.run(follow(llm, ask(), lambda output: True))
    assert llm.open == set()


def test_what_either_side_raises_comes_out() -> None:
    def fail(output: Output) -> bool:
        raise KeyError("ours")

    llm = StandIn(script=b"abcde")
    with pytest.raises(KeyError):
        asyncio.run(follow(llm, ask(), fail))
    assert llm.open == set()

    llm.errored = True
    with pytest.raises(Dead):
        asyncio.run(follow(llm, ask(), lambda output: False))


def test_what_vllm_does_not_take_is_told_from_what_fails_later() -> None:
    class Strict(StandIn):
        async def add_request(self, *args: Any, **more: Any) -> Any:
            raise ValueError("top_k must be above 0")

    def fail(output: Output) -> bool:
        raise ValueError("not enough values to unpack")

    with pytest.raises(Refused, match="top_k must be above 0"):
        asyncio.run(follow(Strict(), ask(), lambda output: True))
    with pytest.raises(ValueError, match="not enough"):
        asyncio.run(follow(StandIn(script=b"abcde"), ask(), fail))


def test_cancelling_aborts() -> None:
    async def main() -> set[str]:
        llm.pause = asyncio.Event()
        following = asyncio.ensure_future(follow(llm, ask(), lambda output: False))
        while not llm.open:
            await asyncio.sleep(0)
        following.cancel()
        done: Any = await asyncio.gather(following, return_exceptions=True)
        assert isinstance(done[0], asyncio.CancelledError)
        return llm.open

    llm = StandIn(script=b"abcde")
    assert asyncio.run(main()) == set()
