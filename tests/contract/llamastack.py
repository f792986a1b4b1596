"""Llama Stack: seed document 003; contract sections A (column S), B.5 and C."""

from typing import Any

from tests.contract import ANY, CERTAIN, DONE, END_TOKEN, MODEL, NUMBER, Aspect, Case, Like

PATH = "/llamastack/v1/completions"
SEED_PATH = "/v1/openai/v1/completions"  # at the root, as in the seed

HEAD: dict[str, Any] = {
    "id": Like(r"cmpl-[0-9a-f]{24}"),
    "object": "text_completion",
    "created": NUMBER,
    "model": MODEL,
}


def choice(text: str, index: int = 0, reason: str | None = "length", **more: Any) -> dict[str, Any]:
    return {"finish_reason": reason, "text": text, "index": index, "logprobs": None, **more}


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


def content(tokens: str, first: Any = CERTAIN) -> dict[str, Any]:
    """The layout `logprobs.content` of the seed's OpenAIChoiceLogprobs."""
    entries = [
        {"token": token, "bytes": [ord(token)], "logprob": CERTAIN, "top_logprobs": [ANY]}
        for token in tokens
    ]
    entries[0]["logprob"] = first
    entries[0]["top_logprobs"] = [] if first is None else [ANY]
    return {"content": entries}


# OpenAI's layout, of the prompt "x " and the token "b" after it.
LEGACY = {
    "tokens": ["x", " ", "b"],
    "token_logprobs": [None, CERTAIN, CERTAIN],
    "top_logprobs": [None, ANY, ANY],
    "text_offset": [0, 1, 2],
}


def refused(body: dict[str, Any], detail: str, source: str) -> Case:
    return Case(
        "error",
        PATH,
        {"model": MODEL, "prompt": "x", **body},
        status=400,
        answer={"status": 400, "title": "Bad Request", "detail": Like(detail)},
        source=source,
    )


def ask(**body: Any) -> dict[str, Any]:
    return {"model": MODEL, "prompt": "x", **body}


_ORIGIN = {"model_type": "llm", "provider_id": "segue", "provider_resource_id": MODEL}
_CARD = {
    "id": MODEL,
    "object": "model",
    "created": NUMBER,
    "owned_by": "llama_stack",
    "custom_metadata": {**_ORIGIN, "context_length": 4096},
    "identifier": MODEL,
    "type": "model",
    "metadata": {"context_length": 4096},
    **_ORIGIN,
}
_PROVIDER = {
    "api": "inference",
    "provider_id": "segue",
    "provider_type": "inline::segue",
    "config": {},
    "health": {"status": "OK"},
}


def _page(path: str, answer: Any, status: int = 200, level: str = "v1") -> Case:
    aspect: Aspect = "usage" if status == 200 else "error"
    path = f"/llamastack/{level}/{path}"
    return Case(aspect, path, None, answer, status=status, method="GET", source="B.5 models")


PAGES = [
    _page("models", {"object": "list", "data": [_CARD]}),
    _page(f"models/{MODEL}", _CARD),
    _page("health", {"status": "OK"}),
    _page("version", {"version": ANY}),
    _page("providers", {"data": [_PROVIDER]}),
    _page("providers/segue", _PROVIDER),
    _page("inspect/routes?api_filter=v1beta", {"data": []}),
    _page("providers/other", {"status": 400, "title": "Bad Request", "detail": ANY}, 400),
    _page("admin/health", {"status": "OK"}, level="v1alpha"),
    _page("admin/version", {"version": ANY}, level="v1alpha"),
    _page("admin/providers", {"data": [_PROVIDER]}, level="v1alpha"),
    _page("admin/providers/segue", _PROVIDER, level="v1alpha"),
    _page("admin/inspect/routes?api_filter=v1beta", {"data": []}, level="v1alpha"),
]

CASES = [
    Case(
        "fold",
        PATH,
        ask(),
        answer=whole(choice(" brown fox jumps"), usage=usage(1, 16)),
        source="seed 003: 200",
    ),
    Case(
        "fold",
        SEED_PATH,
        ask(max_tokens=2),
        answer=whole(choice(" b"), usage=usage(1, 2)),
        source="seed 003: path",
    ),
    Case(
        "stream",
        PATH,
        ask(max_tokens=2, stream=True),
        chunks=[
            chunk(choice(" ", reason=None)),
            chunk(choice("b", reason=None)),
            chunk(choice("")),
        ],
        source="B.5 stream: nulls, no [DONE]",
    ),
    Case(
        "stop",
        PATH,
        ask(stop=["fox", "n f"]),
        answer=whole(choice(" brow", reason="stop"), usage=usage(1, 8)),
        source="seed 003: stop",
    ),
    Case(
        "stop",
        PATH,
        ask(logit_bias={str(END_TOKEN): 100}),
        answer=whole(choice("", reason="stop"), usage=usage(1, 1)),
        source="seed 003: logit_bias",
    ),
    Case(
        "n",
        PATH,
        ask(n=2, max_tokens=2),
        answer=whole(choice(" b", 0), choice(" b", 1), usage=usage(1, 4)),
        source="seed 003: n",
    ),
    Case(
        "n",
        PATH,
        ask(n=1, best_of=2, max_tokens=2),
        answer=whole(choice(" b", 0), usage=usage(1, 4)),
        source="seed 003: best_of",
    ),
    Case(
        "logprobs",
        PATH,
        ask(max_tokens=2, logprobs=True),
        answer=whole(choice(" b", logprobs=content(" b")), usage=usage(1, 2)),
        source="seed 003: boolean logprobs, logprobs.content",
    ),
    Case(
        "logprobs",
        PATH,
        ask(max_tokens=1, logprobs=False),
        answer=whole(choice(" "), usage=usage(1, 1)),
        source="seed 003: boolean logprobs",
    ),
    Case(
        "logprobs",
        PATH,
        ask(prompt="x ", max_tokens=1, prompt_logprobs=0),
        answer=whole(
            choice(
                "b",
                prompt_logprobs=[
                    None,
                    {"32": {"logprob": CERTAIN, "rank": 1, "decoded_token": " "}},
                ],
            ),
            usage=usage(2, 1),
        ),
        source="seed 003: prompt_logprobs",
    ),
    Case(
        "echo",
        PATH,
        ask(prompt="x ", max_tokens=1, echo=True, logprobs=True),
        answer=whole(choice("x b", logprobs=content("x b", None)), usage=usage(2, 1)),
        source="seed 003: echo",
    ),
    Case(
        "logprobs",
        PATH,
        ask(prompt="x ", max_tokens=1, echo=True, logprobs=2),
        answer=whole(choice("x b", logprobs=LEGACY), usage=usage(2, 1)),
        source="OGX 1.5: logprobs up to 5, in the provider's layout",
    ),
    Case(
        "usage",
        PATH,
        ask(max_tokens=1, stream=True, stream_options={"include_usage": True}),
        chunks=[
            chunk(choice(" ", reason=None), usage=None),
            chunk(choice(""), usage=None),
            chunk(usage=usage(1, 1)),
        ],
        source="A stream_options, as OpenAI's",
    ),
    Case(
        "token prompt",
        PATH,
        ask(prompt=[120, 32, 98], max_tokens=3),
        answer=whole(choice("row"), usage=usage(3, 3)),
        source="seed 003: prompt of integers",
    ),
    Case(
        "batch",
        PATH,
        ask(prompt=["x", "xx"], max_tokens=1),
        answer=whole(choice(" ", 0), choice("b", 1), usage=usage(3, 2)),
        source="seed 003: prompt of strings",
    ),
    Case(
        "stop",
        PATH,
        ask(guided_choice=["yes", "no"], logit_bias={str(ord("n")): 90}),
        answer=whole(choice("no", reason="stop"), usage=usage(1, 2)),
        source="seed 003: guided_choice",
    ),
    Case(
        "fold",
        PATH,
        ask(suffix="y", max_tokens=2),
        answer=whole(choice("wn"), usage=usage(5, 2)),
        headers={"x-segue-infill": "fim"},
        source="seed 003: suffix",
    ),
    refused(
        {"logprobs": 6}, "logprobs must be true, false or .* 0 to 5, not 6", "OGX 1.5: logprobs ≤ 5"
    ),
    refused({"max_tokens": 0}, "max_tokens .*", "A max_tokens ≥ 1"),
    refused({"prompt": "x" * 5000}, ".*5000 in the prompt.*", "seed 003: 400"),
    refused({"model": None}, "model is required", "seed 003: required"),
    Case(
        "error",
        PATH,
        {"model": "meta/unregistered", "prompt": "x"},
        status=404,
        answer={"status": 404, "title": "Not Found", "detail": Like(r".*meta/unregistered.*")},
        source="C.1 404: registered models only",
    ),
    Case(
        "error",
        PATH,
        {"model": "", "prompt": "x"},
        status=404,
        answer={"status": 404, "title": "Not Found", "detail": ANY},
        source="Llama Stack 0.7: no model has no name",
    ),
    Case(
        "error",
        SEED_PATH,
        b"[]",
        status=400,
        answer={"status": 400, "title": "Bad Request", "detail": ANY},
        source="seed 003: 400",
    ),
    *PAGES,
]

# Nothing in a stream of Llama Stack's may be [DONE]: its client reads every event as JSON.
assert all(DONE not in (case.chunks or ()) for case in CASES)
