"""Answers with log-probabilities, and with the prompt."""

from tests.contract import ANY, CERTAIN, DONE, MODEL, NUMBER, Case, Like
from tests.contract.vllm.shapes import (
    FINGERPRINT,
    PATH,
    choice,
    chunk,
    error,
    legacy,
    scored,
    usage,
    whole,
)

SCORES = [
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
        {"prompt": "x", "max_tokens": 1, "logprobs": 0, "logprob_token_ids": [98, 32, 113]},
        answer=whole(
            choice(
                " ",
                logprobs={
                    **legacy(" "),
                    "top_logprobs": [{" ": CERTAIN, "b": ANY, "q": ANY}],
                },
            ),
            usage=usage(1, 1),
        ),
        source="protocol.py logprob_token_ids: these and the drawn one, whatever logprobs says",
    ),
    Case(
        "echo",
        PATH,
        {
            "prompt": "x b",
            "max_tokens": 1,
            "logprobs": 0,
            "logprob_token_ids": [113],
            "echo": True,
            "stream": True,
        },
        chunks=[
            chunk(
                choice(
                    "x b",
                    reason=None,
                    prompt_token_ids=[120, 32, 98],
                    logprobs={
                        **legacy("x b"),
                        "token_logprobs": [None, CERTAIN, CERTAIN],
                        "top_logprobs": [None, {" ": CERTAIN}, {"b": CERTAIN}],
                    },
                )
            ),
            chunk(
                choice(
                    "r",
                    reason=None,
                    logprobs={
                        **legacy("r", 3),
                        "top_logprobs": [{"r": CERTAIN, "q": ANY}],
                    },
                )
            ),
            chunk(choice(""), **FINGERPRINT),
            DONE,
        ],
        source="protocol.py prompt_logprobs: the prompt keeps the likeliest, as many as logprobs says",
    ),
    Case(
        "logprobs",
        PATH,
        {"prompt": "x", "stop": "ow", "logprobs": 2, "return_token_ids": True},
        answer=whole(
            choice(
                " br",
                reason="stop",
                stop_reason="ow",
                logprobs=legacy(" brow"),
                token_ids=[ord(each) for each in " brow"],
                prompt_token_ids=[ord("x")],
            ),
            usage=usage(1, 5),
        ),
        source="vLLM: log-probabilities of all tokens, those of the stop string too",
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
                prompt_logprobs=[None, scored(" "), scored("b")],
            ),
            usage=usage(3, 0),
        ),
        source="B.2 echo + max_tokens 0, echo + logprobs; difference: nothing is drawn; compared: prompt_logprobs too",
    ),
    Case(
        "echo",
        PATH,
        {"prompt": "x", "max_tokens": 0, "echo": True, "min_tokens": 1},
        answer=whole(choice("x"), usage=usage(1, 0)),
        source="compared: min_tokens 1 where nothing is drawn",
    ),
    Case(
        "echo",
        PATH,
        {"prompt": "x", "max_tokens": 1, "echo": True, "stream": True},
        chunks=[
            chunk(choice("x", reason=None, prompt_token_ids=[120])),
            chunk(choice(" ", reason=None)),
            chunk(choice(""), **FINGERPRINT),
            DONE,
        ],
        source="B.2 stream 2: the prompt comes first, with its ids",
    ),
    Case(
        "logprobs",
        "/vllm/generative_scoring",
        {"query": "x", "items": ["", [32]], "label_token_ids": [ord("b"), 32], "request_id": "r"},
        answer={
            "id": "generative-scoring-r",
            "object": "list",
            "created": NUMBER,
            "model": MODEL,
            "data": [
                {"index": 0, "object": "score", "score": NUMBER},
                {"index": 1, "object": "score", "score": NUMBER},
            ],
            "usage": {
                "prompt_tokens": 3,
                "total_tokens": 5,
                "completion_tokens": 2,
                "prompt_tokens_details": None,
                "completion_tokens_details": None,
            },
        },
        source="generative_scoring.md; compared",
    ),
    Case(
        "error",
        "/vllm/generative_scoring",
        {"query": "x", "items": ["a"], "label_token_ids": [999]},
        status=400,
        answer=error(Like(r"label_token_ids holds .*"), "label_token_ids", 400),
        source="generative_scoring: validate label_token_ids",
    ),
]
