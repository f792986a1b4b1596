from typing import Any

import pytest

from segue.dialects.base import Stamp
from segue.dialects.llamafile import LLAMAFILE
from segue.errors import InvalidField
from segue.types import CUT_FIRST, CompletionRequest, Prompt

STAMP = Stamp(request_id="r", public_id="r", created=5, seed=99, fingerprint="f")


def parsed(**body: Any) -> CompletionRequest:
    return LLAMAFILE.operations[0].parse({"model": "m", "prompt": "a", **body}, STAMP).request


def test_penalties_look_at_the_last_tokens_of_the_answer_alone() -> None:
    """Its sampler is not handed the prompt; that counted here too."""
    sampling = parsed(presence_penalty=1, frequency_penalty=1).sampling
    assert not sampling.penalize_prompt
    assert sampling.penalty_window == 64


def test_what_no_field_sets() -> None:
    sampling = parsed().sampling
    assert (sampling.order, sampling.top_k, sampling.min_p) == (CUT_FIRST, 40, 0.05)


def test_whether_an_empty_prompt_has_a_token_is_for_the_model_to_say() -> None:
    """Where BOS comes first it has; it was refused."""
    assert parsed(prompt="").prompts == (Prompt(("",)),)


@pytest.mark.parametrize("name", ["n", "best_of"])
def test_there_is_one_choice(name: str) -> None:
    assert parsed(**{name: 1}).num_candidates == 1
    for wrong in (0, 2, True, "1", 1.5):
        with pytest.raises(InvalidField, match=name):
            parsed(**{name: wrong})


@pytest.mark.parametrize("stop", ["x" * 51, ["é" * 25], ["a", "b", "c", "d"]])
def test_stops_that_are_taken(stop: Any) -> None:
    assert parsed(stop=stop).stop == ((stop,) if type(stop) is str else tuple(stop))


@pytest.mark.parametrize("stop", [["x" * 51], ["é" * 26], list("abcde"), "", [""], [1], 1])
def test_stops_that_are_refused(stop: Any) -> None:
    with pytest.raises(InvalidField, match="stop"):
        parsed(stop=stop)
