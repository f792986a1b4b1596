"""How much of what was asked for native answers tell again."""

from typing import Any

import pytest

from segue.bounds import MAX_REPEATED_CHARS
from segue.dialects.base import Stamp
from segue.dialects.llamacpp import COMPLETION
from segue.dialects.llamacpp.fields import CHARS_OF_ENTRY
from segue.dialects.rendering.tally import Tally
from segue.errors import InvalidField

STAMP = Stamp(request_id="r", public_id="r", created=5, seed=99, fingerprint="f")
# Of each, 1024 choices tell as many characters as may be.
MOST = MAX_REPEATED_CHARS >> 10
NUM_ENTRIES = MOST // CHARS_OF_ENTRY
TRIGGERS = [{"type": 2, "value": "q" * (4096 - CHARS_OF_ENTRY)} for _ in range(MOST // 4096)]
STOPS = [f"{i:{1024 - CHARS_OF_ENTRY}}" for i in range(MOST // 1024)]
REST = "#" * (MOST % CHARS_OF_ENTRY)
TOLD: dict[str, dict[str, Any]] = {
    "grammar": {"grammar": "#" * MOST},
    "stop": {"stop": STOPS},
    "grammar_triggers": {"grammar_triggers": TRIGGERS},
    "logit_bias": {"grammar": REST, "logit_bias": {str(i): 1 for i in range(NUM_ENTRIES)}},
    "breakers": {
        "grammar": "#" * (MOST - 64 * (CHARS_OF_ENTRY + 1)),
        "dry_sequence_breakers": ["b"] * 64,
    },
    "preserved_tokens": {
        "grammar": "#" * (MOST - 1000 * CHARS_OF_ENTRY),
        "preserved_tokens": ["one token"] * 1000,
    },
}


@pytest.mark.parametrize("told", TOLD.values(), ids=TOLD)
@pytest.mark.parametrize(
    ("num_prompts", "rest", "param"),
    [(1, {"n_cmpl": 1024}, "n_cmpl"), (8, {"n": 128}, "n"), (1024, {}, "prompt")],
    ids=str,
)
def test_settings_are_not_told_without_end(
    told: dict[str, Any], num_prompts: int, rest: dict[str, Any], param: str
) -> None:
    """Each choice tells them: a body of a megabyte brought answers of gigabytes."""
    body = {**told, "prompt": ["a"] * num_prompts, **rest}
    assert COMPLETION.parse(body, STAMP).request.num_candidates == rest.get(param, 1)
    more = {**body, "stop": [*told.get("stop", []), "s"]}
    with pytest.raises(InvalidField, match=f"{param} would bring .* characters") as error:
        COMPLETION.parse(more, STAMP)
    assert error.value.param == param
    COMPLETION.parse({**more, "response_fields": ["content"]}, STAMP)


def test_choices_share_the_object_of_their_settings() -> None:
    """With a thousand biases and a thousand choices there were a million objects of them."""
    call = COMPLETION.parse({"prompt": ["a", "b"], "n": 2, "logit_bias": {"3": 1}}, STAMP)
    answers = COMPLETION.renderer(call).fold(Tally(call.request))
    assert answers[0]["generation_settings"]["logit_bias"] == [{"bias": 1.0, "token": 3}]
    assert {id(answer["generation_settings"]) for answer in answers} == {
        id(answers[0]["generation_settings"])
    }
