"""mistral.rs: one prompt, logprobs and usage of its own."""

from typing import Any

from tests.contract import ANY, CERTAIN, DONE, END_TOKEN, MODEL, NUMBER, Case, Like

PATH = "/mistralrs/v1/completions"

HEAD: dict[str, Any] = {
    "id": Like(r"[0-9a-f]{24}"),
    "object": "text_completion",
    "created": NUMBER,
    "model": MODEL,
    "system_fingerprint": "local",
}


def choice(text: Any, index: int = 0, reason: str | None = "length", **more: Any) -> dict[str, Any]:
    return {"finish_reason": reason, "index": index, "text": text, "logprobs": None, **more}


def usage(prompt: int, completion: Any) -> dict[str, Any]:
    return {
        "completion_tokens": completion,
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion if completion is not NUMBER else NUMBER,
        "prompt_tokens_details": {"cached_tokens": NUMBER},
        "avg_tok_per_sec": NUMBER,
        "avg_prompt_tok_per_sec": NUMBER,
        "avg_compl_tok_per_sec": NUMBER,
        "total_time_sec": NUMBER,
        "total_prompt_time_sec": NUMBER,
        "total_completion_time_sec": NUMBER,
    }


def whole(*choices: dict[str, Any], prompt: int, completion: Any) -> dict[str, Any]:
    return {**HEAD, "choices": list(choices), "usage": usage(prompt, completion)}


def chunk(choice: dict[str, Any]) -> dict[str, Any]:
    return {**HEAD, "choices": [choice]}


def entry(token: str, num_top: int) -> dict[str, Any]:
    best = {"token": ord(token), "logprob": CERTAIN, "bytes": token}
    others = [{"token": NUMBER, "logprob": ANY, "bytes": Like(".+")}] * (num_top - 1)
    return {
        "token": token,
        "logprob": CERTAIN,
        "bytes": [ord(token)],
        "top_logprobs": [best, *others] if num_top else [],
    }


CASES = [
    Case(
        "fold",
        PATH,
        {"model": "default", "prompt": "x", "max_tokens": 6},
        answer=whole(choice(" brown"), prompt=1, completion=6),
        source="B.6; leading space kept",
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
        source="B.6 stream: no usage",
    ),
    Case(
        "stop",
        PATH,
        {"prompt": "x", "stop": ["fox", "n f"]},
        answer=whole(choice(" brow", reason="stop"), prompt=1, completion=8),
        source="A.1 stop",
    ),
    Case(
        "stop",
        PATH,
        {"prompt": "x", "logit_bias": {END_TOKEN: 200}, "max_tokens": 3},
        answer=whole(choice("", reason="stop"), prompt=1, completion=1),
        source="A.1 logit_bias: unbounded",
    ),
    Case(
        "n",
        PATH,
        {"prompt": "x", "n": 2, "max_tokens": 1},
        answer=whole(choice(" ", 0), choice(" ", 1), prompt=1, completion=2),
        source="B.6 choices; usage of all",
    ),
    Case(
        "n",
        PATH,
        {"prompt": "x", "n": 3, "best_of": 1, "max_tokens": 1},
        answer=whole(choice(" "), prompt=1, completion=3),
        source="A.1 best_of: the best of the n",
    ),
    Case(
        "logprobs",
        PATH,
        {"prompt": "x", "max_tokens": 2, "logprobs": 2},
        answer=whole(
            choice(" b", logprobs={"content": [entry(" ", 2), entry("b", 2)]}),
            prompt=1,
            completion=2,
        ),
        source="B.6 logprobs: ids and strings inside top_logprobs",
    ),
    Case(
        "logprobs",
        PATH,
        {"prompt": "x", "max_tokens": 1, "logprobs": 0, "stream": True},
        chunks=[
            chunk(choice(" ", reason=None, logprobs=entry(" ", 0))),
            chunk(choice("")),
            DONE,
        ],
        source="B.6 stream: one bare entry",
    ),
    Case(
        "echo",
        PATH,
        {"prompt": "x ", "max_tokens": 1, "echo": True},
        answer=whole(choice("x b"), prompt=2, completion=1),
        source="B.6 echo",
    ),
    Case(
        "echo",
        PATH,
        {"prompt": "x ", "max_tokens": 1, "echo": True, "stream": True},
        chunks=[
            chunk(choice("x ", reason=None)),
            chunk(choice("b", reason=None)),
            chunk(choice("")),
            DONE,
        ],
        source="echo in a stream: a difference",
    ),
    Case(
        "stop",
        PATH,
        {"prompt": "x", "grammar": {"type": "regex", "value": "ab?"}, "temperature": 0},
        answer=whole(choice(Like("ab?"), reason="stop"), prompt=1, completion=2),
        source="A.1 grammar: an object",
    ),
    Case(
        "stop",
        PATH,
        {
            "prompt": "x",
            "tools": [{"type": "function", "function": {"name": "now", "parameters": None}}],
            "tool_choice": {"type": "function", "function": {"name": "now"}},
            "stop": '"arguments"',
        },
        answer=whole(
            choice(Like(r'\{\s*"name"\s*:\s*"now"\s*,\s*'), reason="stop"),
            prompt=1,
            completion=NUMBER,
        ),
        source="manual: tools; a required call is the answer",
    ),
    Case(
        "echo",
        PATH,
        {"prompt": "x", "suffix": "END", "max_tokens": 2, "stream": True},
        chunks=[
            chunk(choice(ANY, reason=None)),
            chunk(choice(ANY, reason=None)),
            chunk(choice("END", reason=None)),
            chunk(choice("")),
            DONE,
        ],
        headers={"x-segue-infill": "fim"},
        source="manual: suffix is appended after the completion",
    ),
    Case(
        "usage",
        PATH,
        {"prompt": "x" * 5000, "max_tokens": 6, "truncate_sequence": True},
        answer=whole(choice(ANY), prompt=4090, completion=6),
        headers={"x-segue-truncated": "910"},
        source="A.1 truncate_sequence",
    ),
    Case(
        "usage",
        "/mistralrs/v1/models",
        None,
        method="GET",
        answer={
            "object": "list",
            "data": [
                {
                    "id": name,
                    "object": "model",
                    "created": NUMBER,
                    "owned_by": "local",
                    "root": name,
                    **status,
                }
                for name, status in (("default", {}), (MODEL, {"status": "loaded"}))
            ],
        },
        source="B.6 /v1/models",
    ),
    *(
        Case(
            "usage",
            "/mistralrs/v1/models/status",
            {"model_id": name},
            answer={"model_id": name, "status": status},
            source="B.6 /v1/models: status",
        )
        for name, status in ((MODEL, "loaded"), ("gpt-5", "not_found"))
    ),
    *(
        Case("usage", f"/mistralrs/{path}", None, method="GET", answer="OK", source="B.6 /health")
        for path in ("health", "")
    ),
    Case(
        "token prompt",
        PATH,
        {"prompt": [120]},
        status=422,
        answer={"message": "prompt must be a non-empty string, not a list of 1"},
        source="A.1 prompt: a string only",
    ),
    Case(
        "batch",
        PATH,
        {"prompt": ["x", "y"]},
        status=422,
        answer={"message": Like("prompt must be .+")},
        source="A.1 prompt: array → 422",
    ),
    Case(
        "error",
        PATH,
        {"prompt": "x", "max_tokens": 0},
        status=422,
        answer={"message": "max_tokens must be an integer of at least 1, not 0"},
        source="C.1 M, but 422 for 500",
    ),
    Case(
        "error",
        PATH,
        {"prompt": "x", "n": None},
        status=422,
        answer={"message": Like("n must be .+ null.+")},
        source="A: n rejects null",
    ),
    Case(
        "error",
        PATH,
        {"prompt": "x" * 5000},
        status=422,
        answer={"message": Like(".*5000 tokens.*")},
        source="A.2: context → 422",
    ),
    Case("error", PATH, b"{", status=400, answer={"message": ANY}, source="A: syntax error 400"),
]
