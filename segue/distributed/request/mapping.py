"""A request as vLLM parameters: each core field is a vLLM parameter, is done by Segue, or is refused.

Pure: vLLM is not imported. SAMPLING_ROWS and REQUEST_ROWS are the table; documents and tests are checked against it.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from segue.distributed.logits.own_draws import adds_biases
from segue.engine.sampling.sampler import plan
from segue.engine.sampling.token_rules import TokenRules, biases
from segue.errors import InvalidField
from segue.types import CompletionRequest, Sampling, Step

How = Literal["vllm", "segue", "refused"]


class Row(NamedTuple):
    field: str
    how: How
    note: str


_SAME = "passed on unchanged"
_HERE = "as on Segue's own engine"
_OWN = "drawn by Segue's sampler, in a logits processor"

SAMPLING_ROWS = (
    Row(
        "order",
        "vllm",
        "vLLM's own if the result is the same, else by a logits processor; by Segue's sampler if penalties come "
        "after another step or a step is named twice; infill is refused",
    ),
    Row("seed", "vllm", "plus the number of the candidate; without a seed vLLM draws one"),
    Row("temperature", "vllm", "between 0 and 0.01 vLLM takes 0.01; above 2 by Segue's sampler"),
    Row("dynatemp_range", "segue", _OWN),
    Row("dynatemp_exponent", "segue", "acts with dynatemp_range only"),
    Row("top_k", "vllm", _SAME),
    Row("top_p", "vllm", "0 by Segue's sampler"),
    Row("min_p", "vllm", _SAME),
    Row("typical_p", "segue", _OWN),
    Row("top_n_sigma", "vllm", "by a logits processor"),
    Row("xtc_probability", "segue", _OWN),
    Row("xtc_threshold", "segue", "acts with xtc_probability only"),
    Row(
        "min_keep",
        "segue",
        "above 1 by Segue's sampler, since vLLM's filters guarantee only one token",
    ),
    Row("adaptive_target", "segue", _OWN),
    Row("adaptive_decay", "segue", "acts with adaptive_target only"),
    Row("mirostat", "segue", _OWN),
    Row("mirostat_tau", "segue", "acts with mirostat only"),
    Row("mirostat_eta", "segue", "acts with mirostat only"),
    Row("repetition_penalty", "vllm", _SAME),
    Row("presence_penalty", "vllm", "outside −2 to 2 by Segue's sampler"),
    Row("frequency_penalty", "vllm", "outside −2 to 2 by Segue's sampler"),
    Row("penalty_window", "segue", "if shorter than prompt and answer: by Segue's sampler"),
    Row("penalize_prompt", "segue", "with presence or frequency penalty: by Segue's sampler"),
    Row(
        "repetition_last",
        "segue",
        "with repetition and presence or frequency penalty: by Segue's sampler",
    ),
    Row("dry_multiplier", "segue", _OWN),
    Row("dry_base", "segue", "acts with dry_multiplier only"),
    Row("dry_allowed_length", "segue", "acts with dry_multiplier only"),
    Row("dry_window", "segue", "acts with dry_multiplier only"),
    Row("dry_sequence_breakers", "segue", "acts with dry_multiplier only"),
    Row("logit_bias", "vllm", "not clamped; after penalties by Segue's sampler"),
    Row("text_bias", "vllm", "logit_bias of the text's tokens"),
    Row("allowed_token_ids", "vllm", _SAME),
    Row("bad_words", "vllm", _SAME),
    Row("ignore_eos", "vllm", "as ignore_eos, with end tokens banned by logit_bias"),
    Row("pass_eos", "vllm", "as ignore_eos; with a constraint as in the row above"),
    Row("min_tokens", "vllm", _SAME),
    Row("stop_token_ids", "vllm", "together with the model's end tokens"),
)
REQUEST_ROWS = (
    Row("request_id", "vllm", "plus the numbers of prompt and candidate"),
    Row("model", "segue", "chooses the engine"),
    Row("prompts", "vllm", "as token ids"),
    Row("max_tokens", "vllm", "0 is sent as 1, and that token is dropped"),
    Row(
        "shift",
        "refused",
        "if the answer might fill the context; where shifting is only a default, the answer ends there",
    ),
    Row("n", "segue", "one vLLM request each, once the prompt is computed"),
    Row("best_of", "segue", "ranked by mean log-probability"),
    Row("beam_search", "segue", "one vLLM request of one token for each beam and round"),
    Row("length_penalty", "segue", "acts with beam_search only"),
    Row("stop", "segue", "matched on text; a match aborts vLLM's request"),
    Row("include_stop", "segue", _HERE),
    Row("show_special", "segue", _HERE),
    Row("preserved", "segue", _HERE),
    Row("echo", "segue", _HERE),
    Row("tells_ids", "segue", "Segue puts token ids into the answer"),
    Row("logprobs", "vllm", "raw_logprobs"),
    Row("logprob_token_ids", "vllm", "passed on unchanged; refused with vLLM's first model runner"),
    Row("prompt_logprobs", "vllm", "raw_logprobs of the first candidate's request"),
    Row("score_stops", "segue", _HERE),
    Row("post_sampling_probs", "refused", "vLLM reports only one kind of log-probability"),
    Row("infill", "segue", "by the model's FIM tokens, else by ranked middles"),
    Row("sampling", "vllm", "see above"),
    Row("truncation", "segue", _HERE),
    Row("min_indent", "segue", _HERE),
    Row("time_limit_s", "segue", _HERE),
    Row("repetition", "segue", _HERE),
    Row("report_progress", "segue", "sent once, when the prompt is computed"),
    Row("constraint", "vllm", "structured_outputs.grammar; Segue compiles it first"),
    Row("adapters", "vllm", "one adapter, at its served scale, as lora_request"),
    Row("use_cache", "vllm", "false is skip_reading_prefix_cache"),
    Row("client_slot", "segue", "in answers only; slots are vLLM's, and cannot be saved"),
    Row("cache_salt", "vllm", _SAME),
    Row("tenant", "segue", "no effect on the order: vLLM serves first come, first served"),
    Row("priority", "vllm", "with --scheduling-policy priority; else only 0"),
)

# Sampling steps that vLLM lacks.
_OWN_STEPS: frozenset[Step] = frozenset({"dry", "typical_p", "xtc"})
_BOUNDS = {"temperature": 2.0, "presence_penalty": 2.0, "frequency_penalty": 2.0}
CUTS_KEY = "segue_cuts"  # in extra_args: the steps for distributed/logits/filters.py
DRAW_KEY = "segue_draw"  # in extra_args: a Draw of distributed/logits/own_draws.py


class CandidateParams(NamedTuple):
    """What one candidate asks of vLLM, besides the fields of its request."""

    seed: int | None  # None: vLLM draws one, for each candidate
    candidate: int
    max_tokens: int
    num_alternatives: int | None  # per drawn token; None: not scored
    prompt_alternatives: int | None  # per prompt token; None: not scored
    draw: bytes | None = None  # a Draw: Segue's own sampler draws


def check(request: CompletionRequest) -> None:
    """Raises InvalidField for what cannot be done with vLLM."""
    if request.post_sampling_probs:
        raise _lacking("post_sampling_probs", "it reports raw ones only")
    if "infill" in plan(request.sampling):
        raise _lacking(
            "samplers", "the step infill compares texts, and its processes have only tokens"
        )


def is_drawn_here(sampling: Sampling, reach: int) -> bool:
    """Whether Segue's own sampler draws, as vLLM's cannot. `reach`: tokens of prompt and answer."""
    s, steps = sampling, plan(sampling)
    return (
        not _OWN_STEPS.isdisjoint(steps)
        or "penalties" in steps[1:]
        or adds_biases(s)
        or _is_repetition_last(s, steps)
        or len(set(steps)) < len(steps)
        or s.mirostat != 0
        or s.dynatemp_range > 0
        or _is_adaptive(s)
        or (s.min_keep > 1 and not {"top_p", "min_p"}.isdisjoint(steps))
        or _is_short(s, steps, reach)
        or _counts_prompt(s, steps)
        or any(abs(getattr(s, field)) > most for field, most in _BOUNDS.items())
        or ("top_p" in steps and s.top_p <= 0)
    )


def _is_repetition_last(s: Sampling, steps: tuple[Step, ...]) -> bool:
    counts = s.presence_penalty or s.frequency_penalty
    return "penalties" in steps and s.repetition_last and s.repetition_penalty != 1 and bool(counts)


def _lacking(field: str, why: str) -> InvalidField:
    return InvalidField(f"{field}: the vLLM engine cannot do this: {why}", field)


def _is_adaptive(s: Sampling) -> bool:
    return "adaptive_p" in s.order and s.adaptive_target >= 0 and not s.mirostat


def _is_short(s: Sampling, steps: tuple[Step, ...], reach: int) -> bool:
    return "penalties" in steps and 0 <= s.penalty_window < reach


def _counts_prompt(s: Sampling, steps: tuple[Step, ...]) -> bool:
    return (
        "penalties" in steps
        and s.penalize_prompt
        and bool(s.presence_penalty or s.frequency_penalty)
    )


def parameters(
    request: CompletionRequest, rules: TokenRules, asked: CandidateParams
) -> dict[str, Any]:
    """The arguments of vLLM's SamplingParams, the grammar aside."""
    if request.max_tokens == 0:
        return _scoring(request, asked)
    s, goes_on = request.sampling, rules.ignores_ends or rules.passes_ends
    values = {
        "max_tokens": asked.max_tokens,
        "min_tokens": min(s.min_tokens, asked.max_tokens),
        **_alternatives(request, asked),
        "stop_token_ids": sorted(rules.stops if goes_on else rules.stops | rules.ends),
        "ignore_eos": goes_on,
        "logit_bias": logit_biases(s, rules) or None,
        "allowed_token_ids": None if s.allowed_token_ids is None else list(s.allowed_token_ids),
        "bad_words": list(s.bad_words),
        **_common(request, asked),
        **(_steps(s) if asked.draw is None else _drawn_here(asked.draw)),
    }
    if values["temperature"] > 0 and asked.seed is not None:
        values["seed"] = (asked.seed + asked.candidate) % 2**63
    return values


def _alternatives(request: CompletionRequest, asked: CandidateParams) -> dict[str, Any]:
    """Of vLLM's two parameters one only: what is asked for by id takes the place of the likeliest."""
    if asked.num_alternatives is None or not request.logprob_token_ids:
        return {"logprobs": asked.num_alternatives}
    return {"logprobs": None, "logprob_token_ids": list(request.logprob_token_ids)}


def _scoring(request: CompletionRequest, asked: CandidateParams) -> dict[str, Any]:
    """Parameters for scoring. vLLM generates at least one token, so it is made as cheap as possible."""
    return {"max_tokens": 1, "temperature": 0.0, **_common(request, asked)}


def _common(request: CompletionRequest, asked: CandidateParams) -> dict[str, Any]:
    skips = not request.use_cache or asked.prompt_alternatives is not None
    return {
        "prompt_logprobs": asked.prompt_alternatives,
        "skip_reading_prefix_cache": skips,
        "detokenize": False,
        "flat_logprobs": True,
    }


def logit_biases(s: Sampling, rules: TokenRules) -> dict[int, float]:
    """Logit biases, as in engine/sampling/logit_bans.py: only those that ban, where a step adds the others."""
    ends = dict.fromkeys(rules.ends, -math.inf) if rules.ignores_ends else {}
    only_bans = adds_biases(s)
    first = {t: bias for t, bias in biases(s, rules).items() if bias == -math.inf or not only_bans}
    return first | ends


def forced(request: CompletionRequest, asked: CandidateParams) -> dict[str, Any]:
    """Parameters for scoring tokens that are given: they are drawn one by one, and nothing else can be."""
    values = {
        "max_tokens": asked.max_tokens,
        "logprobs": asked.num_alternatives,
        "ignore_eos": True,
    }
    if asked.draw is not None:
        values |= _drawn_here(asked.draw)
    return {"temperature": 0.0, **values, **_common(request, asked)}


def _drawn_here(draw: bytes) -> dict[str, Any]:
    """One token is left in each row, and vLLM takes the likeliest."""
    return {"temperature": 0.0, "extra_args": {DRAW_KEY: draw}}


def _steps(s: Sampling) -> dict[str, Any]:
    steps = plan(s)
    values: dict[str, Any] = {"temperature": s.temperature if "temperature" in steps else 1.0}
    if "penalties" in steps:
        names = ("repetition_penalty", "presence_penalty", "frequency_penalty")
        values |= {name: getattr(s, name) for name in names}
    if values["temperature"] == 0:
        return values
    cuts = [step for step in steps if step not in ("penalties", "logit_bias")]
    if _is_native(cuts):
        return values | {step: getattr(s, step) for step in cuts}
    listed = [(step, float(getattr(s, step))) for step in cuts]
    return values | {"extra_args": {CUTS_KEY: listed}}


def has_own_order(s: Sampling) -> bool:
    """Whether its filters act in an order that only a logits processor of Segue has."""
    return CUTS_KEY in _steps(s).get("extra_args", {})


def _is_native(cuts: Sequence[Step]) -> bool:
    """Whether these filters equal vLLM's own order: temperature, then min_p, top_k and top_p.

    All three keep the likeliest token, so top_k may come at any position, and min_p at any position after temperature.
    The result of top_p depends on every step before it.
    """
    if "top_n_sigma" in cuts:
        return False
    if "top_p" in cuts and cuts[-1] != "top_p":
        return False
    if "temperature" in cuts and "min_p" in cuts:
        return cuts.index("temperature") < cuts.index("min_p")
    return True
