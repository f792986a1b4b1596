"""A prompt that is too long is told so in the words by which each system's clients recognise it."""

import pytest

from segue.dialects import DIALECTS
from segue.dialects.base import Dialect
from segue.dialects.rendering.context_overflow import as_llamacpp, as_openai
from segue.errors import InvalidField, PromptTooLong

FIGURES = {"n_prompt_tokens": 5000, "n_ctx": 4096, "n_answer": 16}
WORDS = {
    "openai": "This model's maximum context length is 4096 tokens. However, you requested 5016 tokens",
    "vllm": "This model's maximum context length is 4096 tokens. However, you requested 5016 tokens",
    "llamastack": "This model's maximum context length is 4096 tokens. However, you requested 5016 tokens",
    "llamacpp": "the request exceeds the available context size",
    "ollama": "the request exceeds the available context size",
    "llamafile": "out_of_context",
    "mistralrs": "Prompt sequence length is greater than 4096",
}


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_context_overflow_in_each_dialects_words(dialect: Dialect) -> None:
    error = PromptTooLong("too long", "prompt", details=FIGURES)
    shapes = {dialect.error, *(each.error for each in dialect.operations if each.error)}
    shapes |= {each.stream_error for each in dialect.operations if each.stream_error}
    bodies = [str(shape(error).body) for shape in shapes]
    told = [body for body in bodies if WORDS[dialect.name] in body]
    # llamafile has no errors in streams of its own: those are OpenAI's.
    assert told == bodies if dialect.name != "llamafile" else told


def test_the_prompt_is_named_where_there_are_several() -> None:
    error = PromptTooLong("too long", "prompt", details={**FIGURES, "prompt": 3})
    assert "5000 in prompt 3, 16 in the completion" in as_openai(error)


def test_a_bound_is_told_as_one() -> None:
    figures = {"n_prompt_tokens": 900, "n_ctx": 512, "n_answer": 1, "is_counted": 0}
    told = as_openai(PromptTooLong("the prompt has at least 900 tokens", "prompt", details=figures))
    assert "you requested 901 tokens (at least 900 in the prompt, 1 in the completion)" in told


def test_without_figures_the_words_are_still_there() -> None:
    """Litellm and others look for the beginning only."""
    error = PromptTooLong("the names of files take 80 tokens", "prompt")
    assert as_openai(error).startswith("This model's maximum context length is")
    assert as_llamacpp(error).startswith(
        "the request exceeds the available context size: the names"
    )


def test_other_errors_keep_their_words() -> None:
    assert as_openai(InvalidField("n is wrong", "n")) == "n is wrong"
    assert as_llamacpp(InvalidField("n is wrong", "n")) == "n is wrong"
