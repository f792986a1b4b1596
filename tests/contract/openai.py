"""The root dialect: OpenAI's shapes and defaults."""

from typing import Any

from tests.contract import ANY, CERTAIN, DONE, END_TOKEN, MODEL, NUMBER, Case, Like

PATH = "/v1/completions"

HEAD: dict[str, Any] = {
    "id": Like(r"cmpl-[0-9a-f]{24}"),
    "object": "text_completion",
    "created": NUMBER,
    "model": MODEL,
    "system_fingerprint": Like(r"fp_.+"),
}


def choice(text: str, index: int = 0, reason: str | None = "length", **more: Any) -> dict[str, Any]:
    ending = {} if reason is None else {"stop_reason": None}
    base = {"index": index, "text": text, "logprobs": None, "finish_reason": reason}
    return {**base, **ending, **more}


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": NUMBER},
    }


def whole(*choices: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
    return {**HEAD, "choices": list(choices), "usage": usage}


def chunk(*choices: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**HEAD, "choices": list(choices), **more}


def legacy(tokens: str, start: int) -> dict[str, Any]:
    return {
        "tokens": list(tokens),
        "token_logprobs": [CERTAIN] * len(tokens),
        "top_logprobs": [ANY] * len(tokens),
        "text_offset": list(range(start, start + len(tokens))),
    }


def error(message: str | Like, param: str | None, code: str, kind: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


INVALID = "invalid_request_error"
OVERFLOW = (
    "This model's maximum context length is 4096 tokens. However, you requested 5016 tokens "
    "(5000 in the prompt, 16 in the completion). Please reduce the length of the prompt."
)

CASES = [
    Case(
        "fold",
        PATH,
        {"prompt": "x"},
        answer=whole(choice(" brown fox jumps"), usage=usage(1, 16)),
        source="root: max_tokens 16",
    ),
    Case(
        "fold",
        PATH,
        {"prompt": "x", "max_tokens": 4, "use_beam_search": True, "n": 2, "length_penalty": 0.5},
        answer=whole(choice(" bro"), choice(ANY, 1), usage=usage(1, 8)),
        source="root: beam search, as vLLM",
    ),
    Case(
        "stream",
        PATH,
        {"prompt": "x", "max_tokens": 2, "stream": True},
        chunks=[
            chunk(choice(" ", reason=None)),
            chunk(choice("b", reason=None)),
            chunk(choice("")),
            DONE,
        ],
        source="root: usage only when asked",
    ),
    Case(
        "stop",
        PATH,
        {"prompt": "x", "stop": ["fox", "n f"]},
        answer=whole(choice(" brow", reason="stop", stop_reason="n f"), usage=usage(1, 8)),
        source="root: stop",
    ),
    Case(
        "stop",
        PATH,
        {"prompt": "x", "logit_bias": {END_TOKEN: 100}},
        answer=whole(choice("", reason="stop"), usage=usage(1, 1)),
        source="root: end token",
    ),
    Case(
        "n",
        PATH,
        {"prompt": ["x", "xx"], "n": 2, "max_tokens": 2},
        answer=whole(
            choice(" b", 0), choice(" b", 1), choice("br", 2), choice("br", 3), usage=usage(3, 8)
        ),
        source="root: prompt-major",
    ),
    Case(
        "logprobs",
        PATH,
        {"prompt": "x", "max_tokens": 2, "logprobs": 2},
        answer=whole(choice(" b", logprobs=legacy(" b", 1)), usage=usage(1, 2)),
        source="root: legacy layout",
    ),
    Case(
        "logprobs",
        PATH,
        {"prompt": "x", "max_tokens": 1, "logprobs": 0, "logprob_token_ids": [98, 113]},
        answer=whole(
            choice(
                " ",
                logprobs={
                    **legacy(" ", 1),
                    "top_logprobs": [{" ": CERTAIN, "b": ANY, "q": ANY}],
                },
            ),
            usage=usage(1, 1),
        ),
        source="root: tokens by id, as vLLM",
    ),
    Case(
        "echo",
        PATH,
        {"prompt": "x b", "max_tokens": 0, "logprobs": 0, "echo": True},
        answer=whole(
            choice(
                "x b",
                logprobs={
                    **legacy("x b", 0),
                    "token_logprobs": [None, CERTAIN, CERTAIN],
                    "top_logprobs": [None, {" ": CERTAIN}, {"b": CERTAIN}],
                },
            ),
            usage=usage(3, 0),
        ),
        source="root: scoring",
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
            chunk(choice(" ", reason=None), usage=None),
            chunk(choice(""), usage=None),
            chunk(usage=usage(1, 1)),
            DONE,
        ],
        source="root: include_usage",
    ),
    Case(
        "usage",
        PATH,
        {
            "prompt": "x",
            "max_tokens": 1,
            "stream": True,
            "timings_per_token": True,
            "return_progress": True,
        },
        chunks=[
            chunk(
                choice("", reason=None),
                prompt_progress={"total": 1, "cache": 0, "processed": 0, "time_ms": 0.0},
                timings=ANY,
            ),
            chunk(
                choice("", reason=None),
                prompt_progress={"total": 1, "cache": 0, "processed": 1, "time_ms": NUMBER},
                timings=ANY,
            ),
            chunk(choice(" ", reason=None), timings=ANY),
            chunk(choice(""), timings=ANY),
            DONE,
        ],
        source="root: llama.cpp's timings and progress",
    ),
    Case(
        "token prompt",
        PATH,
        {"prompt": [120, 32, 98], "max_tokens": 3},
        answer=whole(choice("row"), usage=usage(3, 3)),
        source="root: token ids",
    ),
    Case(
        "batch",
        PATH,
        {"prompt": ["x", [120, "x"]], "max_tokens": 1},
        answer=whole(choice(" ", 0), choice("b", 1), usage=usage(3, 2)),
        source="root: list of prompts",
    ),
    Case(
        "error",
        PATH,
        {"prompt": "x", "temperature": 3},
        status=400,
        answer=error(
            "temperature must be a number from 0 to 2, not 3",
            "temperature",
            "invalid_value",
            INVALID,
        ),
        source="root: 400 with param",
    ),
    Case(
        "error",
        PATH,
        {"prompt": "ab", "use_beam_search": True, "stream": True},
        status=400,
        answer=error(
            "stream must be false with use_beam_search", "stream", "invalid_value", INVALID
        ),
        source="root: as vLLM",
    ),
    Case(
        "error",
        PATH,
        {"prompt": "x" * 5000},
        status=400,
        answer=error(OVERFLOW, "prompt", "context_length_exceeded", INVALID),
        source="root: too long",
    ),
    Case(
        "error",
        "/v1/nothing",
        {},
        status=404,
        answer=error(Like(".+"), None, "not_found", "not_found_error"),
        source="root: unknown path",
    ),
]
