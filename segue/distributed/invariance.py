"""Whether vLLM's answers depend on what runs beside them: claimed by its batch-invariant mode, and tried at the start.

With VLLM_BATCH_INVARIANT=1, on GPUs that have such kernels, vLLM claims that they do not. One prompt is then completed
alone and again among others, and must give the same tokens with bitwise the same log-probabilities.
"""

import asyncio
import os

from segue.distributed.launch import Launched
from segue.distributed.request.events import Output
from segue.distributed.request.follow import Ask, follow
from segue.distributed.request.mapping import CandidateParams, forced
from segue.types import CompletionRequest

VARIABLE = "VLLM_BATCH_INVARIANT"
_PROMPT = tuple(range(3, 40))
_OTHERS = (5, 17, 64, 3, 120, 33, 9)  # tokens of prompts beside it
_NUM_TOKENS = 16

Scored = list[tuple[int, float]]  # drawn tokens with their log-probabilities


def is_claimed() -> bool:
    return os.environ.get(VARIABLE, "0").strip() not in ("", "0")


async def is_invariant(launched: Launched) -> bool:
    alone = await _drawn(launched, "alone", _PROMPT)
    others = [tuple(range(7, 7 + length)) for length in _OTHERS]
    among, *_ = await asyncio.gather(
        _drawn(launched, "among", _PROMPT),
        *(_drawn(launched, f"beside-{place}", other) for place, other in enumerate(others)),
    )
    return alone == among


async def _drawn(launched: Launched, name: str, tokens: tuple[int, ...]) -> Scored:
    size, room = launched.capabilities.vocab_size, launched.capabilities.context_length
    prompt = [token % size for token in tokens][: max(1, room - _NUM_TOKENS)]
    request = CompletionRequest(request_id=name, model="", prompts=(), use_cache=False)
    asked = CandidateParams(
        seed=0,
        candidate=0,
        max_tokens=min(_NUM_TOKENS, room - len(prompt)),
        num_alternatives=0,
        prompt_alternatives=None,
    )
    parameters = launched.parameters(forced(request, asked), None)
    found: Scored = []

    def take(output: Output) -> bool:
        completion = output.outputs[0]
        rows = zip(completion.token_ids, completion.logprobs or (), strict=True)
        found.extend((token, row[token].logprob) for token, row in rows)
        return completion.finish_reason is not None

    ask = Ask(f"segue-invariance-{name}", launched.prompt(prompt, ""), parameters)
    await follow(launched.llm, ask, take)
    return found
