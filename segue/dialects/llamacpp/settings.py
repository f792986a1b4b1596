"""A request's settings under llama.cpp's names, for answers and for `/props`."""

from typing import Any

from segue.types import CompletionRequest, Sampling

# What its answers call each sampling field.
NAMES: dict[str, str] = {
    "seed": "seed",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_window": "repeat_last_n",
    "repetition_penalty": "repeat_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}


def generation_settings(request: CompletionRequest, stream: bool) -> dict[str, Any]:
    num_predict = -1 if request.max_tokens is None else request.max_tokens
    return {
        **{name: getattr(request.sampling, field) for field, name in NAMES.items()},
        "logit_bias": _biases(request.sampling),
        "stop": request.stop,
        "n_predict": num_predict,
        "max_tokens": num_predict,
        "n_probs": request.logprobs or 0,
        "stream": stream,
    }


def _biases(sampling: Sampling) -> list[dict[str, Any]]:
    return [{"token": token, "bias": bias} for token, bias in sampling.logit_bias.items()]
