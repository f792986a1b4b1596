"""The same bytes on every machine: answers, scores and a text compressed elsewhere, as they were committed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.compress import unpack
from segue import LLM
from tests.support.known_answers import MODELS, TEXT, answers, known, model

QUICK_START = Path(__file__).parents[2] / "docs" / "quickstart.md"

pytest.importorskip("llvmlite", reason="without it there are no kernels of ours")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.model] * (name == "embedded")) for name in MODELS
    ],
)
def loaded(request: pytest.FixtureRequest) -> Iterator[tuple[str, LLM]]:
    with model(request.param) as llm:
        yield request.param, llm


def test_answers_are_those_of_every_other_machine(loaded: tuple[str, LLM]) -> None:
    name, llm = loaded
    assert answers(llm) == known()[name]


def test_the_quick_start_shows_an_answer_as_it_is(loaded: tuple[str, LLM]) -> None:
    name, llm = loaded
    answer = llm.complete("The sea", seed=7, max_tokens=12, temperature=1)
    if name == "embedded":
        assert f"`{str(answer).strip()}`" in QUICK_START.read_text(encoding="utf-8")


def test_a_text_compressed_elsewhere_is_read_here(loaded: tuple[str, LLM]) -> None:
    name, llm = loaded
    assert unpack(llm, bytes.fromhex(known()[name]["compressed"])) == TEXT


def test_the_server_says_what_it_promises(loaded: tuple[str, LLM]) -> None:
    _, llm = loaded
    assert llm.info.deterministic
    assert llm.info.fingerprint.startswith("fp_")
    assert "varies" not in llm.info.fingerprint
