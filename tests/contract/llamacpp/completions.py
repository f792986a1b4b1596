"""The OpenAI path."""

from tests.contract import ANY, CERTAIN, DONE, END_TOKEN, NUMBER, Case, Like
from tests.contract.llamacpp.shapes import (
    PATH,
    READING,
    choice,
    chunk,
    ended,
    entries,
    error,
    logprobs,
    timings,
    whole,
)

COMPLETIONS = [
    Case(
        "fold",
        PATH,
        {"model": "gpt-3.5-turbo", "prompt": "x", "max_tokens": 6, "temperature": 0.7},
        answer=whole(choice(" brown"), prompt=1, completion=6),
        source="B.1 /v1/completions, non-stream",
    ),
    Case(
        "stream",
        PATH,
        {"prompt": "x", "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}},
        chunks=[
            chunk(choice(" ", reason=None)),
            chunk(choice("b", reason=None)),
            chunk(choice(""), **ended(1, 2)),
            DONE,
        ],
        headers={"x-segue-ignored": "stream_options"},
        source="B.1 stream: usage on the last chunk whatever stream_options says",
    ),
    Case(
        "stream",
        PATH,
        {
            "prompt": "x",
            "n_predict": 1,
            "stream": True,
            "return_progress": True,
            "timings_per_token": True,
        },
        chunks=[
            chunk(
                choice("", reason=None),
                prompt_progress={"total": 1, "cache": 0, "processed": 0, "time_ms": 0.0},
                timings={**READING, "prompt_n": 0, "prompt_ms": 0.0},
            ),
            chunk(
                choice("", reason=None),
                prompt_progress={"total": 1, "cache": 0, "processed": 1, "time_ms": NUMBER},
                timings=READING,
            ),
            chunk(choice(" ", reason=None), timings=timings(1)),
            chunk(choice(""), **ended(1, 1)),
            DONE,
        ],
        source="B.1 stream, 2 and 3",
    ),
    Case(
        "stop",
        PATH,
        {"prompt": "x", "stop": ["fox"]},
        answer=whole(choice(" brown ", reason="stop"), prompt=1, completion=10),
        source="B.1 finish_reason",
    ),
    Case(
        "stop",
        PATH,
        {"prompt": "x", "logit_bias": [[END_TOKEN, 100]]},
        answer=whole(choice("", reason="stop"), prompt=1, completion=1),
        source="A.1 logit_bias as a list",
    ),
    Case(
        "stop",
        PATH,
        {"prompt": "x", "n_predict": 2, "logit_bias": [["br", False]]},
        answer=whole(choice(Like(" [^br]")), prompt=1, completion=2),
        source="A.1 logit_bias: text, and false for a ban",
    ),
    Case(
        "n",
        PATH,
        {"prompt": ["x", "xx"], "n": 2, "max_tokens": 2},
        answer=whole(
            choice(" b", 0),
            choice(" b", 1),
            choice("br", 2),
            choice("br", 3),
            prompt=3,
            completion=8,
        ),
        source="B.1 batch × n: prompt-major",
    ),
    Case(
        "n",
        PATH,
        {"prompt": "x", "n_cmpl": 4097},
        status=400,
        answer=error(
            "Field 'n_cmpl': Value must be between 1 <= value <= 128, but got 4097; "
            "at most 128 on this server (--max-n)"
        ),
        source="C.1 and llama.vscode, which looks for these words",
    ),
    Case(
        "logprobs",
        PATH,
        {"prompt": "x", "max_tokens": 2, "logprobs": 2},
        answer=whole(choice(" b", logprobs=logprobs(" b", 2)), prompt=1, completion=2),
        source="B.1 logprobs: chat layout; the manual's lists beside it",
    ),
    Case(
        "logprobs",
        PATH,
        {"prompt": "x", "max_tokens": 1, "logprobs": 0},
        answer=whole(choice(" "), prompt=1, completion=1),
        source="A.1 logprobs: 0 is off",
    ),
    Case(
        "echo",
        PATH,
        {"prompt": "x ", "max_tokens": 1, "echo": True, "logprobs": 1},
        answer=whole(
            choice(
                "x b",
                logprobs={
                    **logprobs("x b", 1),
                    "content": [
                        {**entries("x", 0, None)[0]},
                        *entries(" b", 1),
                    ],
                    "token_logprobs": [None, CERTAIN, CERTAIN],
                    "top_logprobs": [None, ANY, ANY],
                },
            ),
            prompt=2,
            completion=1,
        ),
        source="the manual's echo",
    ),
    Case(
        "usage",
        PATH,
        {"prompt": "x", "n": 2, "max_tokens": 1, "stream": True},
        chunks=[
            chunk(choice(" ", 0, None)),
            chunk(choice("", 0), **ended(1, 1)),
            chunk(choice(" ", 1, None)),
            chunk(choice("", 1), **ended(1, 1)),
            DONE,
        ],
        source="B.1 stream: one final chunk a choice, with its usage and timings",
    ),
    Case(
        "token prompt",
        PATH,
        {"prompt": [120, " ", 98], "max_tokens": 3},
        answer=whole(choice("row"), prompt=3, completion=3),
        source="A.1 prompt: mixed",
    ),
    Case(
        "batch",
        PATH,
        {"prompt": ["x", {"prompt_string": "xx"}, [120]], "max_tokens": 1},
        answer=whole(choice(" ", 0), choice("b", 1), choice(" ", 2), prompt=4, completion=3),
        source="A.1 prompt: array of any of its forms",
    ),
    Case(
        "error",
        PATH,
        {"max_tokens": 1},
        status=400,
        answer=error("prompt is required"),
        source="the manual's error example",
    ),
    Case(
        "error",
        PATH,
        {"prompt": "x", "n_predict": "many"},
        status=400,
        answer=error(
            "Field 'n_predict': value must be an integer from -1 to 2147483647, not \"many\""
        ),
        source="A general rules: wrong JSON type",
    ),
    Case("error", PATH, b"{", status=400, answer=error(Like(".+")), source="C.1, but 400 for 500"),
    Case(
        "error",
        PATH,
        {"prompt": "x" * 5000},
        status=400,
        answer={
            "error": {
                "code": 400,
                "message": Like("the request exceeds the available context size: .*5000 tokens.*"),
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 5000,
                "n_ctx": 4096,
            }
        },
        source="C.1 exceed_context_size_error",
    ),
    Case(
        "error",
        "/llamacpp/nothing",
        {},
        status=404,
        answer=error(Like(".+"), 404, "not_found_error"),
        source="C.1 unknown path",
    ),
]
