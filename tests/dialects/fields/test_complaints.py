"""A refusal names the part of a value that is wrong, and says what would be right there."""

from typing import Any

import pytest

from segue.dialects import DIALECTS
from segue.dialects.base import Stamp
from segue.errors import InvalidField

STAMP = Stamp(request_id="r", public_id="p", created=5, seed=99, fingerprint="f")
OPERATIONS = {dialect.name: dialect.operations[0] for dialect in DIALECTS}


@pytest.mark.parametrize(
    ("dialect", "body", "message"),
    [
        (
            "openai",
            {"response_format": {"type": "yaml"}},
            "response_format.type must be text, json_object, json_schema or structural_tag, "
            'not "yaml"',
        ),
        (
            "openai",
            {"grammar": {"type": "gbnf", "value": "x"}},
            'grammar.type must be regex, lark, json_schema or llguidance, not "gbnf"',
        ),
        (
            "openai",
            {"grammar": {"type": "regex"}},
            "grammar.value must be a string of at most 1048576 characters, not null",
        ),
        (
            "vllm",
            {"structured_outputs": {"json": {}, "regex": "x"}},
            "structured_outputs must be an object with exactly one of json, regex, choice, grammar, "
            'json_object, structural_tag, not an object with "json", "regex"',
        ),
        (
            "openai",
            {"guided_regex": ""},
            "guided_regex must be left out or not empty: an empty one cannot be enforced",
        ),
        (
            "openai",
            {"samplers": "kz"},
            'samplers must be one of e, d, s, k, y, p, m, x, t, i, a, not "z"',
        ),
        (
            "openai",
            {"stop_token_ids": [1, "a"]},
            'stop_token_ids[1] must be a token id, not "a"',
        ),
        (
            "openai",
            {"truncate_prompt_tokens": 0},
            "truncate_prompt_tokens must leave a token: at least 1, or -1",
        ),
        ("ollama", {"think": True}, "think must be false: the model does not support thinking"),
        (
            "ollama",
            {"images": ["aGk="]},
            "images must be left out: no model here sees images",
        ),
    ],
)
def test_complaint(dialect: str, body: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidField) as error:
        OPERATIONS[dialect].parse({"model": "m", "prompt": "x", **body}, STAMP)
    assert error.value.message == message
