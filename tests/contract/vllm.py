"""vLLM: contract sections A (column V), B.2 and C; the chunks of seed document 000."""

from typing import Any

from tests.contract import ANY, CERTAIN, DONE, END_TOKEN, MODEL, NUMBER, Case, Like

PATH = "/vllm/v1/completions"

HEAD: dict[str, Any] = {
    "id": Like(r"cmpl-[0-9a-f]{24}"),
    "object": "text_completion",
    "created": NUMBER,
    "model": MODEL,
}
FINGERPRINT = {"system_fingerprint": Like(r"fp_.+")}


def choice(
    text: str | Like, index: int = 0, reason: str | None = "length", **more: Any
) -> dict[str, Any]:
    base = {
        "index": index,
        "text": text,
        "logprobs": None,
        "finish_reason": reason,
        "stop_reason": None,
        "token_ids": None,
        "prompt_token_ids": None,
    }
    return {**base, **more}


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": NUMBER},
    }


def whole(*choices: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
    empty = {"prompt_logprobs": None, "routed_experts": None}
    return {
        **HEAD,
        **FINGERPRINT,
        "choices": [{**empty, **each} for each in choices],
        "service_tier": None,
        "usage": {**usage, "completion_tokens_details": None},
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }


def chunk(*choices: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**HEAD, "choices": list(choices), "usage": None, **more}


def legacy(tokens: str, start: int = 0) -> dict[str, Any]:
    return {
        "tokens": list(tokens),
        "token_logprobs": [CERTAIN] * len(tokens),
        "top_logprobs": [ANY] * len(tokens),
        "text_offset": list(range(start, start + len(tokens))),
    }


def scored(text: str) -> dict[str, Any]:
    return {str(ord(text)): {"logprob": CERTAIN, "rank": 1, "decoded_token": text}}


def error(
    message: str | Like, param: str | None, status: int, kind: str = "BadRequestError"
) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def refused(body: dict[str, Any], param: str, source: str) -> Case:
    message = Like(rf"{param}\W.*\(parameter={param}\)")
    answer = error(message, param, 400)
    return Case("error", PATH, {"prompt": "x", **body}, status=400, answer=answer, source=source)


CASES = [
    Case(
        "fold",
        PATH,
        {"model": MODEL, "prompt": "x"},
        answer=whole(choice(" brown fox jumps"), usage=usage(1, 16)),
        source="A max_tokens 16; B.2 non-stream",
    ),
    Case(
        "fold",
        PATH,
        {"prompt": "x", "max_tokens": 4, "use_beam_search": True, "n": 2, "length_penalty": 0.5},
        answer=whole(choice(" bro"), choice(ANY, 1), usage=usage(1, 8)),
        source="A use_beam_search: n texts, best first",
    ),
    Case(
        "fold",
        PATH,
        {"prompt": "x", "max_tokens": "2", "return_token_ids": True},
        answer=whole(choice(" b", token_ids=[32, 98], prompt_token_ids=[120]), usage=usage(1, 2)),
        source='A lax coercion of "2"; return_token_ids',
    ),
    Case(
        "stream",
        PATH,
        {"prompt": "x", "max_tokens": 2, "stream": True},
        chunks=[
            chunk(choice(" ", reason=None)),
            chunk(choice("b", reason=None)),
            chunk(choice(""), **FINGERPRINT),
            DONE,
        ],
        source="seed 000 middle and final completion; B.2 stream 1, 3, 5",
    ),
    Case(
        "stream",
        PATH,
        {
            "prompt": "x ",
            "max_tokens": 1,
            "stream": True,
            "prompt_logprobs": 0,
            "return_token_ids": True,
        },
        chunks=[
            chunk(
                choice(
                    "",
                    reason=None,
                    prompt_token_ids=[120, 32],
                    prompt_logprobs=[None, scored(" ")],
                )
            ),
            chunk(choice("b", reason=None, token_ids=[98])),
            chunk(choice(""), **FINGERPRINT),
            DONE,
        ],
        source="difference: prompt_logprobs while streaming",
    ),
    Case(
        "stop",
        PATH,
        {"prompt": "x", "stop": ["fox", "n f"]},
        answer=whole(choice(" brow", reason="stop", stop_reason="n f"), usage=usage(1, 8)),
        source="B.2 stop_reason: matched stop string",
    ),
    Case(
        "stop",
        PATH,
        {"prompt": "x", "stop": "fox", "include_stop_str_in_output": True},
        answer=whole(choice(" brown fox", reason="stop", stop_reason="fox"), usage=usage(1, 10)),
        source="A include_stop_str_in_output",
    ),
    Case(
        "stop",
        PATH,
        {"prompt": "x", "stop_token_ids": [ord("w")]},
        answer=whole(choice(" bro", reason="stop", stop_reason=ord("w")), usage=usage(1, 5)),
        source="B.2 stop_reason: matched token id",
    ),
    Case(
        "stop",
        PATH,
        {"prompt": "x", "logit_bias": {str(END_TOKEN): 1000}},
        answer=whole(choice("", reason="stop"), usage=usage(1, 1)),
        source="B.2 stop_reason null for EOS; A logit_bias clamped",
    ),
    Case(
        "stop",
        PATH,
        {
            "prompt": "x",
            "logit_bias": {str(END_TOKEN): 100},
            "min_tokens": 3,
            "include_stop_str_in_output": True,
            "skip_special_tokens": False,
        },
        answer=whole(choice(" br<|endoftext|>", reason="stop"), usage=usage(1, 4)),
        source="A min_tokens; skip_special_tokens",
    ),
    Case(
        "n",
        PATH,
        {"prompt": ["x", "xx"], "n": 2, "max_tokens": 2},
        answer=whole(
            choice(" b", 0), choice(" b", 1), choice("br", 2), choice("br", 3), usage=usage(3, 8)
        ),
        source="B.2 index: output.index + prompt_idx*n",
    ),
    Case(
        "logprobs",
        PATH,
        {"prompt": "x", "max_tokens": 2, "logprobs": 2},
        answer=whole(choice(" b", logprobs=legacy(" b")), usage=usage(1, 2)),
        source="B.2 legacy layout, text_offset from the choice's text",
    ),
    Case(
        "logprobs",
        PATH,
        {"prompt": "x", "max_tokens": 1, "logprobs": 0, "return_tokens_as_token_ids": True},
        answer=whole(
            choice(
                " ",
                logprobs={
                    "tokens": ["token_id:32"],
                    "token_logprobs": [CERTAIN],
                    "top_logprobs": [{"token_id:32": CERTAIN}],
                    "text_offset": [0],
                },
            ),
            usage=usage(1, 1),
        ),
        source="A return_tokens_as_token_ids; logprobs 0 = chosen token only",
    ),
    Case(
        "logprobs",
        PATH,
        {"prompt": "x ", "max_tokens": 1, "prompt_logprobs": 0},
        answer=whole(choice("b", prompt_logprobs=[None, scored(" ")]), usage=usage(2, 1)),
        source="B.2 prompt_logprobs",
    ),
    Case(
        "echo",
        PATH,
        {"prompt": "x b", "max_tokens": 0, "logprobs": 0, "echo": True},
        answer=whole(
            choice(
                "x b",
                logprobs={
                    **legacy("x b"),
                    "token_logprobs": [None, CERTAIN, CERTAIN],
                    "top_logprobs": [None, {" ": CERTAIN}, {"b": CERTAIN}],
                },
            ),
            usage=usage(3, 0),
        ),
        source="B.2 echo + max_tokens 0, echo + logprobs; difference: nothing is drawn",
    ),
    Case(
        "echo",
        PATH,
        {"prompt": "x", "max_tokens": 1, "echo": True, "stream": True},
        chunks=[
            chunk(choice("x", reason=None)),
            chunk(choice(" ", reason=None)),
            chunk(choice(""), **FINGERPRINT),
            DONE,
        ],
        source="B.2 stream 2: the prompt comes first",
    ),
    Case(
        "usage",
        PATH,
        {
            "prompt": "x",
            "max_tokens": 1,
            "stream": True,
            "stream_options": {"include_usage": True},
        },
        chunks=[
            chunk(choice(" ", reason=None)),
            chunk(choice("")),
            chunk(usage=usage(1, 1), **FINGERPRINT),
            DONE,
        ],
        source="B.2 stream 4: include_usage",
    ),
    Case(
        "usage",
        PATH,
        {
            "prompt": "x",
            "max_tokens": 1,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        },
        chunks=[
            chunk(choice(" ", reason=None), usage=usage(1, 1)),
            chunk(choice(""), usage=usage(1, 1)),
            chunk(usage=usage(1, 1), **FINGERPRINT),
            DONE,
        ],
        source="A continuous_usage_stats",
    ),
    Case(
        "token prompt",
        PATH,
        {"prompt": [120, 32, 98], "max_tokens": 3},
        answer=whole(choice("row"), usage=usage(3, 3)),
        source="A prompt: [int]",
    ),
    Case(
        "batch",
        PATH,
        {"prompt": [[120], [120, 120]], "max_tokens": 1},
        answer=whole(choice(" ", 0), choice("b", 1), usage=usage(3, 2)),
        source="A prompt: [[int]]",
    ),
    Case(
        "token prompt",
        PATH,
        {"prompt": list(b"abcde"), "max_tokens": 1, "truncate_prompt_tokens": 2, "echo": True},
        answer=whole(choice("deb"), usage=usage(2, 1)),
        headers={"x-segue-truncated": "3"},
        source="A truncate_prompt_tokens: the last tokens stay",
    ),
    Case(
        "token prompt",
        PATH,
        {
            "prompt": "x" * 5000,
            "max_tokens": 96,
            "truncate_prompt_tokens": -1,
            "truncation_side": "right",
        },
        answer=whole(choice(ANY), usage=usage(4000, 96)),
        headers={"x-segue-truncated": "1000"},
        source="A truncate_prompt_tokens -1, truncation_side",
    ),
    Case(
        "fold",
        PATH,
        {"prompt": "x", "suffix": "y", "max_tokens": 2},
        answer=whole(choice("wn"), usage=usage(5, 2)),
        headers={"x-segue-infill": "fim"},
        source="difference: suffix for every model",
    ),
    Case(
        "stop",
        PATH,
        {"prompt": "x", "structured_outputs": {"choice": ["yes", "no"]}, "logit_bias": {"110": 90}},
        answer=whole(choice("no", reason="stop"), usage=usage(1, 2)),
        source="A structured_outputs",
    ),
    Case(
        "stop",
        PATH,
        {"prompt": "x", "guided_regex": "[0-3]{4}"},
        answer=whole(choice(Like("[0-3]{4}"), reason="stop"), usage=usage(1, 4)),
        source="difference: guided_* constrain",
    ),
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
    refused({"logprobs": 21}, "logprobs", "A logprobs cap 20"),
    refused({"stop_token_ids": [10**6]}, "stop_token_ids", "A out of vocabulary → 400"),
    refused({"priority": 1}, "priority", "A priority without priority scheduling"),
    refused({"use_beam_search": True, "stream": True}, "stream", "A beam search with stream → 400"),
    refused(
        {"use_beam_search": True, "echo": True, "logprobs": 1},
        "echo",
        "A beam search with echo and logprobs → 400",
    ),
    refused({"use_beam_search": True, "stop": ["x"]}, "stop", "difference: vLLM ignores it"),
    refused({"cache_salt": "a/b"}, "cache_salt", "A cache_salt"),
    Case(
        "error",
        PATH,
        {"prompt": "x", "stream_options": {"include_usage": True}},
        status=400,
        answer=error(Like(".*together with stream.*"), "stream_options.include_usage", 400),
        source="A stream_options without stream → 400",
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
        "token prompt",
        "/vllm/tokenize",
        {"model": MODEL, "prompt": "ab", "add_special_tokens": False, "return_token_strs": True},
        answer={
            "count": 2,
            "max_model_len": 4096,
            "tokens": [97, 98],
            "token_strs": ["a", "b"],
        },
        source="B.2 others: /tokenize",
    ),
    Case(
        "token prompt",
        "/vllm/detokenize",
        {"tokens": [97, 98]},
        answer={"prompt": "ab", "content": "ab"},
        source="B.2 others: /detokenize",
    ),
    Case(
        "token prompt",
        "/vllm/tokenizer_info",
        None,
        method="GET",
        answer={
            "tokenizer_class": "GGUF",
            "bos_token": None,
            "eos_token": "<|endoftext|>",
            "pad_token": None,
            "chat_template": None,
            "model_max_length": 4096,
        },
        source="clients: lm-eval needs eos_token",
    ),
    Case(
        "error",
        "/vllm/tokenize",
        {"model": "gpt-5", "prompt": "ab"},
        status=404,
        answer=error(Like(r".*gpt-5.*"), "model", 404, "NotFoundError"),
        source="B.2 others: unknown model 404",
    ),
    *(
        Case("usage", f"/vllm/{path}", None, answer="", method="GET", source="B.2 others: empty")
        for path in ("health", "ping")
    ),
    Case(
        "usage",
        "/vllm/load",
        None,
        answer={"server_load": 0},
        method="GET",
        source="B.2 others: /load",
    ),
    Case(
        "usage",
        "/vllm/version",
        None,
        answer={"version": "0.32.0", "segue": ANY},
        method="GET",
        source="B.2 others: /version",
    ),
]
