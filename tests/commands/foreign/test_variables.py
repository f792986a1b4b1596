"""What variables of other servers are told to be here."""

import re

import pytest

from segue.commands.foreign import variables
from segue.commands.foreign.flags import FOREIGN
from segue.config import TABLE


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("LLAMA_ARG_CTX_SIZE", "--context-length"),
        ("LLAMA_ARG_N_PARALLEL", "--num-slots"),
        ("LLAMA_ARG_THREADS", "SEGUE_THREADS"),
        ("LLAMA_API_KEY", "SEGUE_API_KEY"),
        ("VLLM_API_KEY", "SEGUE_API_KEY"),
        ("LLAMA_ARG_ENDPOINT_METRICS", "always on"),
        ("LLAMA_ARG_SPEC_DRAFT_N_MAX", "drafts are made"),
        ("LLAMA_ARG_FROB", "not known here"),
        ("OLLAMA_CONTEXT_LENGTH", "--context-length"),
    ],
)
def test_one_that_is_set_is_told(name: str, advice: str) -> None:
    [told] = variables.told({name: "1", "PATH": "/bin", "OLLAMA_HOST": "http://localhost"})
    assert told.startswith(f"{name} is set, and has no effect: ")
    assert advice in told


def test_one_that_is_empty_and_our_own_are_not_told() -> None:
    assert variables.told({"LLAMA_ARG_MODEL": "", "SEGUE_PORT": "1", "LLAMA": "x"}) == []


def test_the_tables_name_what_there_is() -> None:
    own = {row.flag for row in TABLE}
    assert set(variables._FLAGS.values()) <= own | set(FOREIGN)
    words = " ".join(variables._OLLAMA.values())
    assert set(re.findall(r"--[a-z-]+", words)) <= own
