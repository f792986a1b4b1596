"""Every option of a completion, with the names and the meaning of the server's root dialect."""

from collections.abc import Sequence
from typing import Any, TypedDict

Text = str | Sequence[int]
"""A prompt: text, or token ids that are taken as they are."""


class Options(TypedDict, total=False):
    """The meaning and the default of each: `segue dialects openai`, docs/dialects.md."""

    max_tokens: int
    n: int
    best_of: int
    stop: str | Sequence[str]
    seed: int
    echo: bool
    logprobs: int
    logprob_token_ids: Sequence[int]
    # sampling
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    typical_p: float
    top_n_sigma: float
    min_keep: int
    dynatemp_range: float
    dynatemp_exponent: float
    xtc_probability: float
    xtc_threshold: float
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    adaptive_target: float
    adaptive_decay: float
    samplers: Sequence[str] | str
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    repeat_last_n: int
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_sequence_breakers: Sequence[str]
    logit_bias: dict[str, float | bool]
    bad_words: Sequence[str]
    allowed_token_ids: Sequence[int]
    ignore_eos: bool
    min_tokens: int
    stop_token_ids: Sequence[int]
    post_sampling_probs: bool
    # what the answer must match: one of these
    json_schema: dict[str, Any] | str | bool
    grammar: str | dict[str, Any]
    guided_regex: str
    guided_choice: Sequence[str]
    response_format: dict[str, Any]
    structured_outputs: dict[str, Any]
    # prompts and gaps
    add_special_tokens: bool
    skip_special_tokens: bool
    include_stop_str_in_output: bool
    truncate_prompt_tokens: int
    truncation_side: str
    truncate_sequence: bool
    shift: bool
    n_keep: int
    n_discard: int
    input_extra: Sequence[dict[str, str]]
    infill_order: str
    infill_mode: str
    infill_repo: str
    infill_file: str
    n_indent: int
    t_max_predict_ms: int
    cache_prompt: bool
    cache_salt: str
    priority: int
