"""What llama.cpp's server answers: the objects, with what the golden requests leave open."""

from typing import Any

from tests.contract import ANY, CERTAIN, MODEL, NUMBER, Like

PATH = "/llamacpp/v1/completions"
NATIVE = "/llamacpp/completion"

HEAD: dict[str, Any] = {
    "id": Like(r"cmpl-[0-9a-f]{24}"),
    "object": "text_completion",
    "created": NUMBER,
    "model": MODEL,
    "system_fingerprint": Like(r"b0-fp_.+"),
}


def timings(predicted: int) -> dict[str, Any]:
    return {
        "cache_n": NUMBER,
        "prompt_n": NUMBER,
        "prompt_ms": NUMBER,
        "prompt_per_token_ms": NUMBER,
        "prompt_per_second": NUMBER,
        "predicted_n": predicted,
        "predicted_ms": NUMBER,
        "predicted_per_token_ms": NUMBER,
        "predicted_per_second": NUMBER,
    }


READING = {**timings(0), "predicted_ms": 0.0}


def ended(prompt: int, completion: int) -> dict[str, Any]:
    return {
        "usage": {
            "completion_tokens": completion,
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": NUMBER},
        },
        "timings": timings(completion),
    }


def choice(
    text: str | Like, index: int = 0, reason: str | None = "length", **more: Any
) -> dict[str, Any]:
    return {"text": text, "index": index, "logprobs": None, "finish_reason": reason, **more}


def whole(*choices: dict[str, Any], prompt: int, completion: int) -> dict[str, Any]:
    return {**HEAD, "choices": list(choices), **ended(prompt, completion)}


def chunk(*choices: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**HEAD, "choices": list(choices), **more}


def entries(tokens: str, num_top: int, first: Any = CERTAIN) -> list[dict[str, Any]]:
    return [
        {
            "id": ord(token),
            "token": token,
            "bytes": [ord(token)],
            "logprob": CERTAIN if i else first,
            "top_logprobs": [ANY] * num_top,
        }
        for i, token in enumerate(tokens)
    ]


def logprobs(tokens: str, num_top: int) -> dict[str, Any]:
    return {
        "content": entries(tokens, num_top),
        "tokens": list(tokens),
        "token_logprobs": [CERTAIN] * len(tokens),
        "top_logprobs": [ANY] * len(tokens),
        "text_offset": list(range(len(tokens))),
    }


def native(content: str, prompt: str = "x", **more: Any) -> dict[str, Any]:
    return {
        "index": 0,
        "content": content,
        "tokens": [],
        "id_slot": -1,
        "stop": True,
        "model": MODEL,
        "tokens_predicted": len(content),
        "tokens_evaluated": len(prompt),
        "generation_settings": ANY,
        "prompt": prompt,
        "has_new_line": False,
        "truncated": False,
        "stop_type": "limit",
        "stopping_word": "",
        "tokens_cached": len(prompt) + max(len(content) - 1, 0),
        "timings": timings(len(content)),
        **more,
    }


def piece(content: str, predicted: int, evaluated: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "index": 0,
        "content": content,
        "tokens": [ord(each) for each in content],
        "stop": False,
        "id_slot": -1,
        "tokens_predicted": predicted,
        "tokens_evaluated": evaluated,
        **more,
    }


def error(message: str | Like, status: int = 400, kind: str = "invalid_request_error") -> Any:
    return {"error": {"code": status, "message": message, "type": kind}}
