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


@pytest.mark.parametrize(
    ("flags", "is_heeded"),
    [
        ({}, False),
        ({"scheduling_policy": "priority"}, True),
        ({"engine": "vllm", "vllm_options": ("scheduling_policy=priority",)}, True),
        ({"engine": "vllm", "vllm_options": ('scheduling-policy="priority"',)}, True),
        ({"engine": "vllm", "vllm_options": ("scheduling_policy=fcfs",)}, False),
        (
            {
                "engine": "vllm",
                "scheduling_policy": "priority",
                "vllm_options": ("dtype=float32", "scheduling_policy=fcfs"),
            },
            False,
        ),
    ],
)
def test_the_header_of_a_priority_is_heeded_where_the_engine_has_priorities(
    flags: dict[str, Any], is_heeded: bool
) -> None:
    settings = config.load(flags, {"HOME": "/nowhere"})
    assert build_policy(settings).heeds_priorities is is_heeded
