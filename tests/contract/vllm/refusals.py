"""Requests that are refused."""

from tests.contract import ANY, Case, Like
from tests.contract.vllm.shapes import PATH, error, refused

REFUSALS = [
    refused({"guided_json": {"type": "nope"}}, "guided_json", "a bad schema is a 400"),
    refused(
        {"structured_outputs": {"regex": "a", "choice": ["a"]}},
        "structured_outputs",
        "A exactly one of",
    ),
    refused({"truncation_side": "middle"}, "truncation_side", "A truncation_side"),
    refused({"temperature": 3}, "temperature", "A temperature 0…2 else 400"),
    refused({"n": None}, "n", "A null is refused for n"),
    refused({"n": 2, "temperature": 0}, "n", "A greedy n>1 → 400"),
    refused({"max_tokens": 0}, "max_tokens", "A max_tokens 0 only with echo"),
    refused({"max_tokens": 1, "min_tokens": 2}, "min_tokens", "A min_tokens > max_tokens"),
    refused({"stop": list("abcde")}, "stop", "A at most 4 stops"),
    refused({"logprobs": 101}, "logprobs", "difference: --max-logprobs is 100, not 20"),
    refused({"logprobs": "1"}, "logprobs", "A logprobs as text → 400"),
    refused({"top_k": -2}, "top_k", "A top_k -1, 0 or more"),
    refused({"stop_token_ids": [10**6]}, "stop_token_ids", "A out of vocabulary → 400"),
    refused({"priority": 1}, "priority", "A priority without priority scheduling"),
    refused({"use_beam_search": True, "stream": True}, "stream", "A beam search with stream → 400"),
    refused(
        {"use_beam_search": True, "echo": True, "logprobs": 1},
        "echo",
        "A beam search with echo and logprobs → 400",
    ),
    refused({"use_beam_search": True, "stop": ["x"]}, "stop", "difference: vLLM ignores it"),
    *(
        refused({"logprob_token_ids": [1], **body}, "logprob_token_ids", f"A {why} → 400")
        for body, why in (
            ({}, "logprob_token_ids without logprobs"),
            ({"logprobs": 0, "use_beam_search": True}, "logprob_token_ids with beam search"),
            ({"logprobs": 0, "echo": True, "max_tokens": 0}, "logprob_token_ids without output"),
        )
    ),
    refused(
        {"logprobs": 0, "logprob_token_ids": [0] * 129},
        "logprob_token_ids",
        "A logprob_token_ids at most 128",
    ),
    refused(
        {"logprobs": 0, "logprob_token_ids": [10**6]},
        "logprob_token_ids",
        "sampling_params.py out of vocabulary → 400",
    ),
    refused({"cache_salt": "a/b"}, "cache_salt", "A cache_salt"),
    *(
        refused({"stream_options": options}, "stream_options", "A stream_options without stream")
        for options in ({"include_usage": True}, {"include_usage": None}, {"unknown": 1})
    ),
    refused(
        {"truncate_prompt_tokens": 4097},
        "truncate_prompt_tokens",
        "compared: truncate_prompt_tokens above the context → 400",
    ),
    *(
        refused({name: None}, name, "compared: null is refused where a boolean has no null")
        for name in ("add_special_tokens", "include_stop_str_in_output", "return_weight_versions")
    ),
    *(
        refused(
            {"repetition_detection": how}, "repetition_detection", "compared: repetition_detection"
        )
        for how in (
            "x",
            {"max_pattern_size": -1},
            {"max_pattern_size": 1, "min_pattern_size": 2, "min_count": 2},
            {"max_pattern_size": 2, "min_count": 1},
            {"max_pattern_size": None},
        )
    ),
    refused(
        {"repetition_detection": {"max_pattern_size": 2, "min_count": 2}, "use_beam_search": True},
        "repetition_detection",
        "difference: vLLM ignores it",
    ),
    refused({"request_id": None}, "request_id", "compared: null is refused"),
    refused({"allowed_token_ids": ["x"]}, "allowed_token_ids", "compared: ids are numbers"),
    refused({"logit_bias": {"7": "x"}}, "logit_bias", "compared: biases are numbers"),
    refused({"logit_bias": {"x": 1}}, "logit_bias", "compared: biases are by token id"),
    Case(
        "error",
        PATH,
        {"prompt": ["x", ""]},
        status=400,
        answer=error(Like("prompt 1 is empty: .*"), "prompt", 400),
        source="compared: an empty text needs a BOS in front",
    ),
    Case(
        "error",
        PATH,
        {"model": "gpt-5", "prompt": "x"},
        status=404,
        answer=error(Like(r".*gpt-5.*"), "model", 404, "NotFoundError"),
        source="C.1 404 model",
    ),
    Case(
        "error",
        PATH,
        {"prompt": "x" * 5000},
        status=400,
        answer=error(Like(r".*5000 in the prompt.*"), "input_tokens", 400),
        source="A prompt longer than context",
    ),
    Case("error", PATH, b"{", status=400, answer=error(ANY, None, 400), source="A body not JSON"),
    Case(
        "error",
        "/vllm/v1/nothing",
        {},
        status=404,
        answer={"detail": "Not Found"},
        source="C.1 404 path",
    ),
    Case(
        "error",
        "/vllm/completions",
        {},
        status=404,
        answer={"detail": "Not Found. Is /vllm/v1/completions meant?"},
        source="C.1 404 path",
    ),
]
