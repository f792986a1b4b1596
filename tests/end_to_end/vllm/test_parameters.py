"""A request to vLLM's dialect becomes the SamplingParams that `vllm serve` makes of it, but for what is listed here."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from segue.dialects.base import Call, Stamp
from segue.dialects.vllm import VLLM
from segue.distributed.launch import Launch, engine_config
from segue.distributed.request.prepare import VllmRequests
from segue.types import CompletionRequest
from tests.support.models.tiny_hf import write_tiny_hf
from tests.support.vllm.server import NEEDS_VLLM
from tests.support.vllm.unstarted import do_not_start

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
    "stream_interval",
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
    {"logprobs": 3, "logprob_token_ids": [9, 5]},
    {"prompt_logprobs": 2, "stream": False},
    {"echo": True, "logprobs": 2},
    {"stream_interval": 8},
    {"stop": ["x"], "include_stop_str_in_output": True},
    {"skip_special_tokens": False},
    {"return_weight_versions": True},
    {"stream_options": {"include_usage": True}},
]


OWN_FILE = "generation_config.json"
OWN = {
    "temperature": 0.6,
    "top_k": 50,  # what Hugging Face's own default was for years
    "top_p": 0.95,
    "min_p": 0.05,
    "repetition_penalty": 1.05,
    "max_new_tokens": 7,
    "do_sample": True,
    "skip_special_tokens": False,  # read by vLLM from 0.33 on
}


@pytest.fixture
def folder(tiny_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_hf(tmp_path_factory.mktemp("hf") / "tiny", tiny_gguf)


@pytest.fixture(scope="module")
def requests(tiny_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmRequests]:
    """Requests to an engine that is configured, and not started."""
    from vllm import envs

    folder = str(write_tiny_hf(tmp_path_factory.mktemp("hf") / "tiny", tiny_gguf))
    with pytest.MonkeyPatch.context() as patch:
        do_not_start(patch, folder)
        launched = Launch(model=folder, name="tiny")()
    limits = replace(launched.capabilities, num_cells=4096)
    yield VllmRequests(replace(launched, capabilities=limits, can_score_asked=True))
    envs.disable_envs_cache()


def ours(requests: VllmRequests, request: CompletionRequest) -> Any:
    prepared = requests.prepare(request)
    return requests.ask(prepared, prepared.job.sequences[0]).parameters


def called(body: dict[str, Any], seed: int | None = None) -> Call:
    stamp = Stamp(request_id="r", public_id="r", created=0, seed=seed, fingerprint="f")
    return VLLM.operations[0].parse(body, stamp)


def parsed(body: dict[str, Any], seed: int | None = None) -> CompletionRequest:
    return called(body, seed).request


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_a_request_is_asked_as_by_vllm_serve(requests: VllmRequests, body: dict[str, Any]) -> None:
    from vllm.entrypoints.openai.completion.protocol import CompletionRequest as Theirs

    sent = PLAIN | body
    theirs = Theirs(model="tiny", **sent).to_sampling_params(sent["max_tokens"], {})
    assert not differing(requests, theirs, ours(requests, parsed(sent)))


def differing(requests: VllmRequests, theirs: Any, made: Any) -> dict[str, Any]:
    ends = list(requests.launched.vocab.end_tokens)
    for params in (theirs, made):  # as vLLM does with what it is given
        params.update_from_generation_config({"eos_token_id": ends}, ends[0])
        params.stop_token_ids = sorted(set(params.stop_token_ids) - set(ends))
    return {
        name: (getattr(theirs, name), getattr(made, name))
        for name in made.__struct_fields__
        if getattr(theirs, name) != getattr(made, name) and name not in MEANT
    }


@pytest.mark.parametrize("choice", ["auto", "vllm", "folder"])
def test_a_models_own_defaults_are_asked_as_by_vllm_serve(
    folder: Path, tmp_path: Path, choice: str
) -> None:
    """Its generation_config.json, none, or that of another folder, which bounds answers too."""
    from vllm import envs
    from vllm.entrypoints.openai.completion.protocol import CompletionRequest as Theirs
    from vllm.entrypoints.serve.utils.api_utils import get_max_tokens

    (folder / OWN_FILE).write_text(json.dumps(OWN))
    (tmp_path / OWN_FILE).write_text(json.dumps({"top_p": 0.5, "max_new_tokens": 5}))
    launch = Launch(
        model=str(folder),
        name="tiny",
        generation_config=str(tmp_path) if choice == "folder" else choice,
    )
    with pytest.MonkeyPatch.context() as patch:
        do_not_start(patch, str(folder))
        launched = launch()
    made_by = VllmRequests(
        replace(launched, capabilities=replace(launched.capabilities, num_cells=4096))
    )
    said = engine_config(launch).model_config.get_diff_sampling_param()
    bound = said.get("max_tokens") if choice == "folder" else None
    for body in ({}, {"temperature": 0.3}, {"top_p": 0.7, "max_tokens": 3}, {"top_k": 0}):
        sent = PLAIN | body
        most = get_max_tokens(launched.info.context_length, sent["max_tokens"], 3, said, bound)
        theirs = Theirs(model="tiny", **sent).to_sampling_params(most, said)
        call = VLLM.operations[0].fill(called(sent), launched.info)
        made = ours(made_by, call.request)
        assert made.max_tokens == most
        assert call.request.show_special is not theirs.skip_special_tokens
        assert not differing(made_by, theirs, made)
    envs.disable_envs_cache()


def test_a_seed_that_was_drawn_is_used(requests: VllmRequests) -> None:
    assert ours(requests, parsed(PLAIN, DRAWN)).seed == DRAWN
    assert ours(requests, parsed(PLAIN | {"temperature": 0}, DRAWN)).seed is None


def test_a_constraint_is_not_outlived(requests: VllmRequests) -> None:
    """With ignore_eos an end token is drawn only where the constraint allows nothing else."""
    asked = {"ignore_eos": True, "structured_outputs": {"choice": ["x"]}}
    made = ours(requests, parsed(PLAIN | asked))
    assert set(made.logit_bias) == set(requests.launched.vocab.end_tokens)
