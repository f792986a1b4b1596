"""Fields whose step does not act are named."""

from typing import Any

import pytest

from segue.dialects.base import Dialect, Stamp
from segue.dialects.llamacpp import LLAMACPP
from segue.dialects.openai import OPENAI

STAMP = Stamp(request_id="r", public_id="p", created=5, seed=99, fingerprint="f")


@pytest.mark.parametrize("dialect", [OPENAI, LLAMACPP], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize(
    ("body", "idle"),
    [
        ({"top_p": 0.5, "temperature": 0.3}, ()),
        ({"samplers": ["top_k"], "top_k": 4, "top_p": 0.5}, ("top_p",)),
        ({"samplers": "kt", "temperature": 0.3, "repeat_penalty": 1.2}, ("repeat_penalty",)),
        ({"samplers": [], "temperature": 0}, ("temperature",)),
        ({"samplers": ["top_k"], "top_p": 1.0, "top_n_sigma": -1, "xtc_probability": 0}, ()),
        ({"samplers": ["top_k"], "top_n_sigma": 0, "adaptive_target": -0.5}, ()),
        ({"samplers": ["top_k"], "top_n_sigma": 1}, ("top_n_sigma",)),
        ({"adaptive_target": 0.5}, ("adaptive_target",)),  # it had no effect in silence
        ({"adaptive_target": 0.5, "samplers": ["adaptive_p"]}, ()),
        ({"mirostat": 2, "min_p": 0.1, "temperature": 0.5, "dry_multiplier": 1}, ("min_p",)),
        ({"mirostat": 2, "samplers": [], "temperature": 0.5}, ()),
    ],
)
def test_fields_of_steps_that_do_not_act(
    dialect: Dialect, body: dict[str, Any], idle: tuple[str, ...]
) -> None:
    call = dialect.operations[0].parse({"prompt": "a", **body}, STAMP)
    assert call.ignored == idle


def test_a_default_that_does_not_act_is_not_the_clients() -> None:
    """llama.cpp's own defaults cut; a client that names other steps has not asked for them."""
    call = LLAMACPP.operations[0].parse({"prompt": "a", "samplers": ["top_k"]}, STAMP)
    assert call.ignored == ()
