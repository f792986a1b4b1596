"""The same requests to vLLM's own server and to the dialect that stands for it, with the same model in float32.

Here is what both answer alike; what they do not is listed in the dialect (`DIFFERENCES`). The dialect is that of the
newest vLLM; what an older one does not have yet is said here.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.models.tiny_hf import write_tiny_hf
from tests.support.serving import serving
from tests.support.vllm.own_server import vllm_serving
from tests.support.vllm.server import IS_EXACT, NEEDS_VLLM

pytestmark = [*NEEDS_VLLM, pytest.mark.timeout(1200)]

PRECISION = 2e-2  # Segue's kernels round activations to 8 bits
PLAIN: dict[str, Any] = {"model": "tiny", "prompt": "the end", "temperature": 0, "max_tokens": 6}
PATTERN = {"max_pattern_size": 2, "min_count": 3}
ANSWERED: list[dict[str, Any]] = [
    {},
    {"max_tokens": "3", "ignore_eos": 1},
    {"prompt": [116.0, 104], "return_token_ids": True},
    {"prompt": ["a", "the end"], "max_tokens": 2},
    {"prompt": [[97], [98, 99]], "max_tokens": 2, "logprobs": 1},
    {"logprobs": 0},
    {"logprobs": 3, "return_tokens_as_token_ids": True},
    {"echo": True, "logprobs": 2},
    {"echo": True, "prompt": [256, 100, 271]},
    {"prompt_logprobs": 2},
    {"stop": "on"},
    {"stop_token_ids": ["100"], "include_stop_str_in_output": True},
    {"logit_bias": {"271": 1000}},
    {"logit_bias": {" 0271": "100"}, "min_tokens": 3, "skip_special_tokens": False},
    {"allowed_token_ids": [97, 98.0], "logprobs": 1},
    {"bad_words": ["on"], "frequency_penalty": 0.5, "repetition_penalty": 1.3},
    {"logit_bias": {"97": 100}, "repetition_detection": PATTERN, "max_tokens": 9},
    {"truncate_prompt_tokens": 3, "return_token_ids": True},
    {"truncate_prompt_tokens": 3, "truncation_side": "right", "return_token_ids": True},
    {"use_beam_search": True, "n": 2, "max_tokens": 4},
    {"request_id": "mine"},
    {"return_weight_versions": False},
]
SCORED: list[dict[str, Any]] = [
    {},
    {"apply_softmax": False},
    {"item_first": True, "items": ["a"]},
    {"query": [116, 104], "items": [[97], [98, 99]], "label_token_ids": [97]},
    {"query": "", "label_token_ids": ["121", 97, 121]},
]
SCORING = {"model": "tiny", "query": "the end", "items": ["a", " on"], "label_token_ids": [97, 98]}
# Of what vLLM tells of itself, the names that are not here.
OTHER_FIGURES = {
    *("estimated_flops_per_gpu", "estimated_read_bytes_per_gpu", "estimated_write_bytes_per_gpu"),
    *("external_prefix_cache_hits", "external_prefix_cache_queries"),
    *("mm_cache_hits", "mm_cache_queries", "engine_sleep_state", "admission_rejections"),
    *(
        "prompt_tokens_by_source",
        "prompt_tokens_cached_by_source",
        "num_requests_waiting_by_reason",
    ),
    *("request_num_preemptions", "request_prefill_kv_computed_tokens"),
    *("request_params_max_tokens", "request_params_n"),
}
NEWEST = (0, 33)
# What older ones answer otherwise.
ANSWERED_BY_NEWEST: list[dict[str, Any]] = [
    {"return_weight_versions": True},
    {"return_weight_versions": True, "stop_token_ids": [100]},
    {"skip_special_tokens": None},
    {"prompt": [256, 100, 271], "truncate_prompt_tokens": 2, "echo": True},
    {"use_beam_search": True, "n": 3, "max_tokens": 9, "return_weight_versions": True},
]
NEWEST_MEMBERS = {"weight_versions", "kv_transfer_params"}  # of a choice and of a chunk
REFUSED: list[dict[str, Any]] = [
    {"prompt": ""},
    {"prompt": [""]},
    {"prompt": [278]},
    {"prompt": "x" * 600},
    {"n": 2},
    {"n": None},
    {"temperature": 2.5},
    {"top_p": 0},
    {"max_tokens": 0},
    {"min_tokens": 7},
    {"logprobs": 101},
    {"stop": list("abcde")},
    {"stop": ""},
    {"stream_options": {"include_usage": True}},
    {"truncate_prompt_tokens": 257},
    {"add_special_tokens": None},
    {"request_id": None},
    {"cache_salt": "a/b"},
    {"repetition_detection": {"max_pattern_size": 2}},
    {"allowed_token_ids": []},
    {"structured_outputs": {"regex": "a", "choice": ["a"]}},
]


class Both(NamedTuple):
    vllm: httpx2.Client
    segue: httpx2.Client
    is_newest: bool  # vLLM

    def ask(self, body: dict[str, Any]) -> tuple[httpx2.Response, httpx2.Response]:
        asked = {**PLAIN, **body}
        theirs, ours = (each.post("v1/completions", json=asked) for each in (self.vllm, self.segue))
        assert theirs.status_code == ours.status_code, (theirs.text, ours.text)
        return theirs, ours

    def known(self, members: dict[str, Any]) -> list[str]:
        """Those of ours that this vLLM has, too."""
        return [name for name in members if self.is_newest or name not in NEWEST_MEMBERS]


@pytest.fixture(scope="module")
def both(tiny_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = write_tiny_hf(tmp_path_factory.mktemp("hf") / "tiny", tiny_gguf)
    options = ["--served-model-name", "tiny", "--dtype", "float32", "--enforce-eager"]
    options += [] if IS_EXACT else ["--gpu-memory-utilization", "0.15"]
    with (
        serving(f"tiny={tiny_gguf}", "--context-length", "256") as served,
        vllm_serving(folder, "--max-model-len", "256", *options) as address,
        httpx2.HTTPTransport(uds=address) as way,
        httpx2.Client(base_url=f"{served.url}/vllm/", timeout=300) as segue,
        httpx2.Client(transport=way, base_url="http://vllm/", timeout=300) as vllm,
    ):
        major, minor = vllm.get("version").json()["version"].split(".")[:2]
        yield Both(vllm, segue, (int(major), int(minor)) >= NEWEST)


@pytest.mark.parametrize("body", ANSWERED, ids=str)
def test_answers_are_alike(both: Both, body: dict[str, Any]) -> None:
    check_alike(both, body)


@pytest.mark.parametrize("body", ANSWERED_BY_NEWEST, ids=str)
def test_newer_answers_are_alike(both: Both, body: dict[str, Any]) -> None:
    if not both.is_newest:
        pytest.skip("this vLLM answers otherwise")
    check_alike(both, body)


def check_alike(both: Both, body: dict[str, Any]) -> None:
    theirs, ours = (answer.json() for answer in both.ask(body))
    assert list(theirs) == list(ours)
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert theirs["usage"][name] == ours["usage"][name]
    assert len(theirs["choices"]) == len(ours["choices"])
    for one, other in zip(theirs["choices"], ours["choices"], strict=True):
        assert list(one) == both.known(other)
        assert one.get("weight_versions") == other["weight_versions"]
        for name in ("index", "text", "finish_reason", "stop_reason"):
            assert one[name] == other[name], name
        for name in ("token_ids", "prompt_token_ids"):
            assert one[name] == other[name], name
        compare(one["prompt_logprobs"], other["prompt_logprobs"])
        scores = [each["logprobs"] or {} for each in (one, other)]
        assert list(scores[0]) == list(scores[1])
        for name in ("tokens", "token_logprobs", "top_logprobs"):
            compare(*(each.get(name) for each in scores))


def compare(theirs: Any, ours: Any) -> None:
    if isinstance(theirs, float):
        assert ours == pytest.approx(theirs, abs=PRECISION)
    elif isinstance(theirs, dict):
        assert sorted(theirs) == sorted(ours)
        for name in theirs:
            compare(theirs[name], ours[name])
    elif isinstance(theirs, list):
        for pair in zip(theirs, ours, strict=True):
            compare(*pair)
    else:
        assert theirs == ours


@pytest.mark.parametrize(
    "body", [{}, {"return_weight_versions": True, "ignore_eos": True}], ids=str
)
def test_chunks_are_alike(both: Both, body: dict[str, Any]) -> None:
    """But for their number, and for `usage`. On a busy machine vLLM's come together, and the last is the first, too."""
    theirs, ours = (
        [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n")[:-2]]
        for answer in both.ask({**body, "stream": True})
    )
    pairs = [(theirs[-1], ours[-1])]
    if len(theirs) > 1:
        pairs.append((theirs[0], ours[0]))
    for one, other in pairs:
        assert set(one) == {*both.known(other)} - {"usage"}
        assert list(one["choices"][0]) == both.known(other["choices"][0])
        spans = [chunk["choices"][0].get("weight_versions") for chunk in (one, other)]
        assert spans[0] == spans[1] or not both.is_newest
    texts = ["".join(chunk["choices"][0]["text"] for chunk in each) for each in (theirs, ours)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("body", SCORED, ids=str)
def test_scores_are_alike(both: Both, body: dict[str, Any]) -> None:
    asked = {**SCORING, **body}
    theirs, ours = (
        each.post("generative_scoring", json=asked).json() for each in (both.vllm, both.segue)
    )
    assert list(theirs) == list(ours)
    assert theirs["usage"] == ours["usage"]
    compare(theirs["data"], ours["data"])


def test_figures_have_the_same_names(both: Both) -> None:
    """What has none of a kind of sample yet is told all the same."""
    both.ask({})
    theirs, ours = (
        {
            family.name.removeprefix("vllm:")
            for family in text_string_to_metric_families(each.get("metrics").text)
            if family.name.startswith("vllm:") and not family.name.endswith("_created")
        }
        for each in (both.vllm, both.segue)
    )
    assert theirs - ours <= OTHER_FIGURES
    assert ours & OTHER_FIGURES == set()


@pytest.mark.parametrize("body", REFUSED, ids=str)
def test_refusals_are_alike(both: Both, body: dict[str, Any]) -> None:
    theirs, ours = (answer.json()["error"] for answer in both.ask(body))
    assert list(theirs) == list(ours)
    assert theirs["code"] == ours["code"] == 400
