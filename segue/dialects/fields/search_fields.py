"""Fields of beam search and of priority, which vLLM has and the root takes over, and what they ask of others."""

from segue.bounds import MAX_INT64
from segue.dialects.fields.kinds import Boolean, Integer, Number
from segue.dialects.fields.table import Draft, Field

MAX_PENALTY = 16.0  # of lengths: more would overflow

BEAMS = Field(
    "use_beam_search",
    Boolean(),
    "Find the likeliest texts instead of drawing; n is the width. Not streamed, without stop strings and bans.",
    "beam_search",
)
LENGTH_PENALTY = Field(
    "length_penalty",
    Number(-MAX_PENALTY, MAX_PENALTY),
    "Of beam search: log-probabilities are divided by the number of generated tokens to this power.",
    "length_penalty",
)
PRIORITY = Field(
    "priority",
    Integer(-MAX_INT64 - 1, MAX_INT64),
    "Of one key's requests the lower is served first, if the server has --scheduling-policy priority; else only 0.",
    "priority",
)

# Of sampling: what beam search keeps to, or the engine refuses by name.
_BEAM_TARGETS = {
    f"sampling.{name}"
    for name in (
        "allowed_token_ids",
        "bad_words",
        "ignore_eos",
        "logit_bias",
        "min_tokens",
        "pass_eos",
        "stop_token_ids",
    )
}


def check_beams(draft: Draft) -> None:
    """Beam search draws nothing, so fields of drawing have no effect with it, and its own none without it."""
    if not draft.values.get("beam_search"):
        if "length_penalty" in draft.given:
            draft.ignored.append(draft.given["length_penalty"])
        return
    draft.ignored += [
        name
        for target, name in draft.given.items()
        if target.startswith("sampling.") and target not in _BEAM_TARGETS
    ]
    if draft.values.get("stream"):
        raise draft.refuse("stream", "must be false with use_beam_search")
    if draft.values.get("echo") and draft.values.get("logprobs") is not None:
        raise draft.refuse(
            "echo", "cannot have logprobs with use_beam_search: prompts are not scored"
        )
