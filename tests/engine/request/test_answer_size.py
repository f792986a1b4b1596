from collections.abc import Sequence
from typing import Any

import pytest

from segue.bounds import CHARS_OF_ID, MAX_ANSWER_SCORES, MAX_REPEATED_CHARS
from segue.engine.request.answer_size import check_prompt_scores, check_repeated
from segue.errors import InvalidField
from tests.engine.harness import ask

LONG = [[1] * (1 << 12)] * 16


@pytest.mark.parametrize(
    ("fields", "num_prompts", "param"),
    [
        ({"echo": True, "logprobs": 100, "prompt_logprobs": 100, "max_tokens": 0}, 16, "echo"),
        ({"echo": True, "logprobs": 100, "prompt_logprobs": 100, "n": 16}, 1, "echo"),
        ({"echo": True, "n": 128}, 16, "echo"),
        ({"prompt_logprobs": 100}, 16, "prompt_logprobs"),
        ({"prompt_logprobs": 0, "n": 17}, 16, "prompt_logprobs"),
        ({"prompt_logprobs": 0, "n": 16}, 16, None),  # as many as an answer may hold
        ({"prompt_logprobs": 1, "n": 8}, 16, None),
        ({"prompt_logprobs": 100}, 2, None),
        ({"echo": True, "prompt_logprobs": 1}, 16, None),
        ({"echo": True}, 16, None),
        ({"n": 128, "logprobs": 100}, 16, None),
    ],
)
def test_scores_of_prompts_are_counted_before_they_are_computed(
    fields: dict[str, Any], num_prompts: int, param: str | None
) -> None:
    request, prompts = ask("x", **fields), LONG[:num_prompts]
    if param is None:
        check_prompt_scores(request, prompts)
        return
    with pytest.raises(InvalidField, match=f"an answer may hold {MAX_ANSWER_SCORES}") as error:
        check_prompt_scores(request, prompts)
    assert error.value.param == param


MOST = MAX_REPEATED_CHARS // 2**16


@pytest.mark.parametrize(
    ("fields", "prompts", "texts", "param"),
    [
        ({"tells_ids": True, "n": MOST // CHARS_OF_ID}, LONG, (), None),
        ({"tells_ids": True, "n": MOST // CHARS_OF_ID + 1}, LONG, (), "n"),
        ({"tells_ids": True, "n": MOST // CHARS_OF_ID}, [*LONG, [1]], (), "n"),
        ({"tells_ids": True}, LONG * (MOST // CHARS_OF_ID), (), None),
        ({"tells_ids": True}, [*LONG * (MOST // CHARS_OF_ID), [1]], (), "prompt"),
        ({"n": 4096}, LONG, (), None),
        ({"echo": True, "n": MOST}, [[1]], ["x" * 2**16], None),
        ({"echo": True, "n": MOST}, [[1]], ["x" * 2**16, "y"], "n"),
        ({"echo": True, "tells_ids": True, "n": MOST}, [[1]], ["x" * 2**16], "n"),
        ({"n": MOST + 1}, [[1]], ["x" * 2**16], None),
    ],
)
def test_prompts_are_not_told_without_end(
    fields: dict[str, Any], prompts: list[list[int]], texts: Sequence[str], param: str | None
) -> None:
    """32 prompts whose ids 128 choices tell were an answer of 133 MB; the text around a gap was told whole, too."""
    request = ask("x", **fields)
    if param is None:
        check_repeated(request, prompts, texts)
        return
    with pytest.raises(InvalidField, match=f"at most {MAX_REPEATED_CHARS}") as error:
        check_repeated(request, prompts, texts)
    assert error.value.param == param
