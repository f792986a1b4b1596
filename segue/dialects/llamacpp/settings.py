"""A request's settings under llama.cpp's names, for answers and for `/props`."""

import math
from collections.abc import Mapping
from typing import Any

from segue.dialects.base import Call
from segue.dialects.fields.constraint_fields import TRIGGER_KINDS
from segue.dialects.llamacpp.fields import NATIVE_FIELDS
from segue.types import Adapter, CompletionRequest, ModelInfo, Sampling, Trigger

# What its answers call a step of sampling, where that is another name than ours.
STEP_NAMES = {"typical_p": "typ_p"}

# What its answers tell of a request without a seed: -1 in 32 bits without a sign.
NO_SEED = 2**32 - 1

# Their order in its answers.
ORDER = (
    "seed",
    "temperature",
    "dynatemp_range",
    "dynatemp_exponent",
    "top_k",
    "top_p",
    "min_p",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "typical_p",
    "repeat_last_n",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "dry_sequence_breakers",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "adaptive_target",
    "adaptive_decay",
    "stop",
    "max_tokens",
    "n_predict",
    "n_keep",
    "n_discard",
    "ignore_eos",
    "stream",
    "logit_bias",
    "n_probs",
    "min_keep",
    "grammar",
    "grammar_lazy",
    "grammar_triggers",
    "preserved_tokens",
    "samplers",
    "timings_per_token",
    "post_sampling_probs",
    "lora",
)


def generation_settings(call: Call, preserved: tuple[tuple[str, int], ...] = ()) -> dict[str, Any]:
    """`preserved`: texts of the request's preserved tokens, and which token each is."""
    request, tokens = call.request, dict(preserved)
    num_predict = -1 if request.max_tokens is None else request.max_tokens
    settings = {
        **_sampling(request.sampling),
        "logit_bias": _biases(request.sampling, call.info),
        "stop": request.stop,
        "max_tokens": num_predict,
        "n_predict": num_predict,
        "n_keep": request.shift.num_kept if request.shift else 0,
        "n_discard": request.shift.num_dropped if request.shift else 0,
        "n_probs": request.logprobs or 0,
        "post_sampling_probs": request.post_sampling_probs,
        "grammar": _grammar(request),
        "grammar_lazy": call.shape["grammar_lazy"],
        "grammar_triggers": [_trigger(each, tokens) for each in call.shape["grammar_triggers"]],
        "preserved_tokens": sorted(set(tokens.values())),
        "stream": call.stream,
        "timings_per_token": call.shape["timings_per_token"],
        "lora": [_adapter(each, call) for each in request.adapters or ()],
    }
    return {name: settings[name] for name in sorted(settings, key=ORDER.index)}


def _trigger(trigger: Trigger, tokens: Mapping[str, int]) -> dict[str, Any]:
    """A text that is one token has become that token."""
    token = trigger.token if trigger.kind == "token" else None
    if trigger.kind == "word":
        token = tokens.get(trigger.value)
    if token is None:
        return {"type": TRIGGER_KINDS.index(trigger.kind), "value": trigger.value}
    return {"type": TRIGGER_KINDS.index("token"), "value": trigger.value, "token": token}


def _adapter(adapter: Adapter, call: Call) -> dict[str, Any]:
    """By its number, as requests give it: the server has settled the name."""
    number = call.adapter_numbers.get(str(adapter.name), adapter.name)
    return {"id": number, "scale": adapter.scale}


def _sampling(sampling: Sampling) -> dict[str, Any]:
    """Every sampling field that a row of this dialect sets, by the name of that row."""
    return {
        row.name: getattr(sampling, row.target.removeprefix("sampling."))
        for row in NATIVE_FIELDS.rows
        if row.target.startswith("sampling.")
    } | {
        "seed": NO_SEED if sampling.seed is None else sampling.seed,
        "samplers": [STEP_NAMES.get(step, step) for step in sampling.order],
    }


def _grammar(request: CompletionRequest) -> str:
    given = request.constraint
    return given.value if given and isinstance(given.value, str) else ""


def _biases(sampling: Sampling, info: ModelInfo | None) -> list[dict[str, Any]]:
    """With ignore_eos, the model's end tokens are banned. JSON has no infinity: a banned token has null."""
    ends = info.end_tokens if info and sampling.ignore_eos else ()
    biases = {**sampling.logit_bias, **dict.fromkeys(ends, -math.inf)}
    return [
        {"bias": bias if math.isfinite(bias) else None, "token": token}
        for token, bias in biases.items()
    ]
