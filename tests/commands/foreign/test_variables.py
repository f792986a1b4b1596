"""What variables of other servers, and those called as ours are, are told to be here."""

import re
from pathlib import Path

import pytest

import segue
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


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("SEGUE_CONTEXT", "did you mean SEGUE_CONTEXT_SHIFT or SEGUE_CONTEXT_LENGTH?"),
        ("SEGUE_MAX_QUEUE_SIZE", "did you mean SEGUE_MAX_QUEUE?"),
        ("SEGUE_CTX_SIZE", "here it is --context-length N"),
        ("SEGUE_KV_MEMORY", "did you mean SEGUE_KV_MEMORY_MIB?"),
        ("SEGUE_FROB", "it is not known here"),
        ("SEGUE_VERSION", "it is not known here"),
    ],
)
def test_one_that_is_called_as_ours_are_is_told(name: str, advice: str) -> None:
    """They had no effect, in silence, unless they were near enough to be refused."""
    assert variables.told({name: "1"}) == [f"{name} is set, and has no effect: {advice}"]


def test_what_kubernetes_sets_is_not_told() -> None:
    numbers = ("SERVICE_PORT", "SERVICE_PORT_HTTP", "REDIS_SERVICE_HOST", "PORT_80_TCP_ADDR")
    addresses = ("PORT", "PORT_80_TCP", "REDIS_PORT")
    environ = {f"SEGUE_{name}": "1" for name in numbers}
    assert variables.told(environ | {f"SEGUE_{name}": "tcp://1:80" for name in addresses}) == []


def test_what_processes_of_ours_tell_each_other_is_not_told() -> None:
    """Each variable that our sources name is a setting or one of these, or is given to one child alone."""
    files = Path(segue.__file__).parent.rglob("*.py")
    sources = "".join(file.read_text("utf-8") for file in files)
    named = set(re.findall(r'"(SEGUE_[A-Z_]+)"', sources))
    to_a_compiler = {"SEGUE_HAS_FMA", "SEGUE_HALVES_BY_HAND", "SEGUE_WIDE_REGISTERS"}
    to_a_compiler |= {"SEGUE_KV_IN_CODES"}
    assert variables.told(dict.fromkeys(named - to_a_compiler, "1")) == []
    assert to_a_compiler <= named


def test_the_tables_name_what_there_is() -> None:
    own = {row.flag for row in TABLE}
    assert set(variables._FLAGS.values()) <= own | set(FOREIGN)
    words = " ".join(variables._OLLAMA.values())
    assert set(re.findall(r"--[a-z-]+", words)) <= own
