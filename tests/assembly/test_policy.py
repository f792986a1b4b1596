from typing import Any

import pytest

from segue import config
from segue.assembly.policy import build_policy
from segue.dialects.fields.token_fields import SHIFTS


@pytest.mark.parametrize(
    ("flags", "defaults"),
    [
        ({}, {}),
        ({"context_shift": True}, {SHIFTS: True}),
        ({"context_shift": True, "defaults": ("n_predict=9",)}, {SHIFTS: True, "max_tokens": 9}),
        ({"context_shift": True, "engine": "vllm"}, {}),
    ],
)
def test_defaults_of_requests(flags: dict[str, Any], defaults: dict[str, Any]) -> None:
    settings = config.load(flags, {"HOME": "/nowhere"})
    assert build_policy(settings).defaults == defaults
