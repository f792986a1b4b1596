"""How much of what was asked for native answers tell again."""

from typing import Any

import pytest

from segue.bounds import MAX_REPEATED_CHARS
from segue.dialects.base import Stamp
from segue.dialects.llamacpp import COMPLETION
from segue.errors import InvalidField

STAMP = Stamp(request_id="r", public_id="r", created=5, seed=99, fingerprint="f")
# 1024 of these are as many characters as may be.
TRIGGERS = [{"type": 2, "value": "q" * 4096} for _ in range(MAX_REPEATED_CHARS >> 22)]
TEXTS = {
    "grammar": "#" * 2**16,
    "stop": [f"{i:1024}" for i in range(64)],
    "grammar_triggers": TRIGGERS,
}


@pytest.mark.parametrize(("name", "value"), TEXTS.items(), ids=TEXTS.keys())
@pytest.mark.parametrize(
    ("num_prompts", "rest", "param"),
    [(1, {"n_cmpl": 1024}, "n_cmpl"), (8, {"n": 128}, "n"), (1024, {}, "prompt")],
    ids=str,
)
def test_settings_are_not_told_without_end(
    name: str, value: Any, num_prompts: int, rest: dict[str, Any], param: str
) -> None:
    """Each choice tells them: a body of a megabyte brought answers of gigabytes."""
    body = {name: value, "prompt": ["a"] * num_prompts, **rest}
    assert COMPLETION.parse(body, STAMP).request.num_candidates == rest.get(param, 1)
    more = {**body, "stop": [*TEXTS["stop"], "s"] if name == "stop" else ["s"]}
    with pytest.raises(InvalidField, match=f"{param} would bring .* characters") as error:
        COMPLETION.parse(more, STAMP)
    assert error.value.param == param
    COMPLETION.parse({**more, "response_fields": ["content"]}, STAMP)
