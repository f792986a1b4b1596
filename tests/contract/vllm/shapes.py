"""What vLLM answers: the objects, with what the golden requests leave open."""

from typing import Any

from tests.contract import ANY, CERTAIN, MODEL, NUMBER, Case, Like

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
        "weight_versions": None,
    }
    return {**base, **more}


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": NUMBER},
    }


def in_full(usage: dict[str, Any]) -> dict[str, Any]:
    """As an answer in one object has it."""
    details = {"created_cache_tokens": None, "multimodal_tokens": None}
    cached = usage["prompt_tokens_details"]
    return {
        **usage,
        "prompt_tokens_details": {**cached, **details},
        "completion_tokens_details": None,
    }


def times(completion: int) -> dict[str, Any]:
    """Of an answer with one choice."""
    drawn, gaps = (NUMBER if completion > least else None for least in (0, 1))
    return {
        "time_to_first_token_ms": drawn,
        "generation_time_ms": drawn,
        "queue_time_ms": None,
        "mean_itl_ms": gaps,
        "tokens_per_second": drawn,
        "speculative_decoding": None,
    }


def whole(
    *choices: dict[str, Any], usage: dict[str, Any], is_timed: bool | None = None
) -> dict[str, Any]:
    """`is_timed`: where its choice is not the only one that was drawn, it has no times."""
    one = len(choices) == 1 if is_timed is None else is_timed
    empty = {"prompt_logprobs": None, "routed_experts": None}
    return {
        **HEAD,
        **FINGERPRINT,
        "choices": [{**empty, **each} for each in choices],
        "service_tier": None,
        "usage": in_full(usage),
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": times(usage["completion_tokens"]) if one else None,
    }


def chunk(*choices: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Of a choice, or of none: that of usage, which has no null."""
    ends = {"usage": None, **({"kv_transfer_params": None} if choices else {})}
    return {**HEAD, "choices": list(choices), **ends, **more}


def drawn(number: int) -> list[dict[str, Any]]:
    """So many tokens, by weights that nobody has replaced."""
    return [{"version": "default", "start": 0, "end": number}]


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
