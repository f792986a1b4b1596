"""A request to vLLM's dialect becomes the SamplingParams that `vllm serve` makes of it, but for what is listed here."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from segue.dialects.base import Stamp
from segue.dialects.vllm import VLLM
from segue.distributed.launch import Launch
from segue.distributed.vllm_requests import VllmRequests
from segue.types import CompletionRequest
from tests.support.tiny_hf import write_tiny_hf
from tests.support.unstarted_vllm import do_not_start
from tests.support.vllm_server import NEEDS_VLLM

pytestmark = [*NEEDS_VLLM, pytest.mark.filterwarnings("ignore")]  # vLLM is imported in this process

DRAWN = 12345  # the seed of a request that brings none, where its engine wants one
# Of no effect on what vLLM's engine computes: texts, stop strings and choices are Segue's.
MEANT = {
    "detokenize",
    "flat_logprobs",
    "include_stop_str_in_output",
    "n",
    "output_kind",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "stop",
    "output_text_buffer_length",
}
PLAIN: dict[str, Any] = {"prompt": [5, 6, 7], "max_tokens": 16, "stream": True}
BODIES: list[dict[str, Any]] = [
    {},
    {"temperature": 0},
    {"temperature": 0.8, "ignore_eos": True},
    {"temperature": 0.8, "seed": 3},
    {"seed": -1},
    {"top_p": 0.9, "top_k": 40, "min_p": 0.05},
    {"top_p": 1.0, "min_p": 0},
    {"presence_penalty": 0.5, "frequency_penalty": -0.5, "repetition_penalty": 1.2},
    {"logit_bias": {"5": 2, "6": -100}},
    {"min_tokens": 4},
    {"min_tokens": 4, "ignore_eos": True},
    {"stop_token_ids": [9, 8], "ignore_eos": True},
    {"allowed_token_ids": [5, 6]},
    {"bad_words": ["x"]},
    {"logprobs": 0},
    {"logprobs": 3},
    {"prompt_logprobs": 2, "stream": False},
    {"echo": True, "logprobs": 2},
    {"stop": ["x"], "include_stop_str_in_output": True},
    {"skip_special_tokens": False},
    {"stream_options": {"include_usage": True}},
]


@pytest.fixture(scope="module")
def requests(tiny_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmRequests]:
    """Requests to an engine that is configured, and not started."""
    from vllm import envs

    folder = str(write_tiny_hf(tmp_path_factory.mktemp("hf") / "tiny", tiny_gguf))
    with pytest.MonkeyPatch.context() as patch:
        do_not_start(patch, folder)
        launched = Launch(model=folder, name="tiny")()
    limits = replace(launched.capabilities, num_cells=4096)
    yield VllmRequests(replace(launched, capabilities=limits))
    envs.disable_envs_cache()


def ours(requests: VllmRequests, request: CompletionRequest) -> Any:
    prepared = requests.prepare(request)
    return requests.ask(prepared, prepared.job.sequences[0]).parameters


def parsed(body: dict[str, Any], seed: int | None = None) -> CompletionRequest:
    stamp = Stamp(request_id="r", public_id="r", created=0, seed=seed, fingerprint="f")
    return VLLM.operations[0].parse(body, stamp).request


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_a_request_is_asked_as_by_vllm_serve(requests: VllmRequests, body: dict[str, Any]) -> None:
    from vllm.entrypoints.openai.completion.protocol import CompletionRequest as Theirs

    sent = PLAIN | body
    theirs = Theirs(model="tiny", **sent).to_sampling_params(sent["max_tokens"], {})
    made = ours(requests, parsed(sent))
    ends = list(requests.launched.vocab.end_tokens)
    for params in (theirs, made):  # as vLLM does with what it is given
        params.update_from_generation_config({"eos_token_id": ends}, ends[0])
        params.stop_token_ids = sorted(set(params.stop_token_ids) - set(ends))
    differing = {
        name: (getattr(theirs, name), getattr(made, name))
        for name in made.__struct_fields__
        if getattr(theirs, name) != getattr(made, name) and name not in MEANT
    }
    assert not differing


def test_a_seed_that_was_drawn_is_used(requests: VllmRequests) -> None:
    assert ours(requests, parsed(PLAIN, DRAWN)).seed == DRAWN
    assert ours(requests, parsed(PLAIN | {"temperature": 0}, DRAWN)).seed is None


def test_a_constraint_is_not_outlived(requests: VllmRequests) -> None:
    """With ignore_eos an end token is drawn only where the constraint allows nothing else."""
    asked = {"ignore_eos": True, "structured_outputs": {"choice": ["x"]}}
    made = ours(requests, parsed(PLAIN | asked))
    assert set(made.logit_bias) == set(requests.launched.vocab.end_tokens)
