"""Tokens, health and the like."""

from tests.contract import ANY, MODEL, NUMBER, Case, Like
from tests.contract.vllm.shapes import error

PAGES = [
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
        "/vllm/tokenize",
        {"prompt": "a", "add_special_tokens": "no", "return_token_strs": None},
        answer={"count": 1, "max_model_len": 4096, "tokens": [97], "token_strs": None},
        source="compared: flags are read leniently",
    ),
    Case(
        "error",
        "/vllm/tokenize",
        {"prompt": "a", "add_special_tokens": None},
        status=400,
        answer=error(ANY, "add_special_tokens", 400),
        source="compared: add_special_tokens has no null",
    ),
    Case(
        "token prompt",
        "/vllm/detokenize",
        {"tokens": ["97", 98.0]},
        answer={"prompt": "ab", "content": "ab"},
        source="compared: ids are read leniently",
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
        "/vllm/v1/models",
        None,
        method="GET",
        answer={
            "object": "list",
            "data": [
                {
                    "id": MODEL,
                    "object": "model",
                    "created": NUMBER,
                    "owned_by": "vllm",
                    "root": MODEL,
                    "parent": None,
                    "max_model_len": 4096,
                    "permission": [
                        {
                            "id": Like("modelperm-.+"),
                            "object": "model_permission",
                            "created": NUMBER,
                            "allow_create_engine": False,
                            "allow_sampling": True,
                            "allow_logprobs": True,
                            "allow_search_indices": False,
                            "allow_view": True,
                            "allow_fine_tuning": False,
                            "organization": "*",
                            "group": None,
                            "is_blocking": False,
                        }
                    ],
                }
            ],
        },
        source="B.2 others: /v1/models cards",
    ),
    Case(
        "usage",
        "/vllm/version",
        None,
        answer={"version": "0.33.0", "segue": ANY},
        method="GET",
        source="B.2 others: /version",
    ),
]
