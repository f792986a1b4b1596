"""Request, then --default, then the model's own, then the dialect's: in the dialects whose systems have it so."""

from typing import Any

import pytest
from msgspec.structs import replace

from segue.dialects import DIALECTS
from segue.dialects.base import Stamp
from segue.types import CUT_FIRST, CompletionRequest, ModelDefaults
from tests.support.fakes import INFO

STAMP = Stamp(request_id="r", public_id="r", created=0, seed=77, fingerprint="f")
GOOD = {"model": "m", "prompt": "p", "token_ids": [1], "input_prefix": "a", "input_suffix": "b"}
OPERATIONS = {
    dialect.name + operation.path: operation
    for dialect in DIALECTS
    for operation in dialect.operations
    if "stream" in operation.table.known  # the others write no text
}
READING = ("llamacpp", "mistralrs", "vllm/v1", "vllm/invocations")
OWN = ModelDefaults(
    source="tiny.gguf",
    sampling={
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 0.9,
        "min_p": 0.25,
        "repetition_penalty": 1.5,
        "presence_penalty": 0.5,
        "penalty_window": 9,
        "mirostat": 2,
        "order": ("top_k", "temperature"),
    },
)


def ask(
    which: str, own: ModelDefaults | None = OWN, defaults: dict[str, Any] | None = None, **body: Any
) -> CompletionRequest:
    asked = {**GOOD, **body}
    operation = OPERATIONS[which]
    call = operation.parse(asked, STAMP, defaults or {})
    return operation.fill(call, replace(INFO, defaults=own), defaults or {}).request


@pytest.mark.parametrize("which", OPERATIONS)
def test_only_some_systems_read_them(which: str) -> None:
    is_read = which.startswith(READING)
    assert (ask(which) != ask(which, None)) == is_read
    assert (ask(which).sampling.temperature == 0.6) == is_read


@pytest.mark.parametrize("which", [which for which in OPERATIONS if which.startswith(READING)])
def test_the_request_and_the_server_come_first(which: str) -> None:
    assert ask(which, temperature=0.1).sampling.temperature == 0.1
    assert ask(which, temperature=None).sampling.temperature == 0.6
    defaults = {"sampling.temperature": 0.2}
    assert ask(which, defaults=defaults).sampling.temperature == 0.2
    assert ask(which, defaults=defaults).sampling.top_k == 20
    assert ask(which, defaults=defaults, temperature=0.1).sampling.temperature == 0.1
    assert ask(which, top_k=0, defaults=defaults).sampling.top_k == 0


def test_each_system_reads_what_it_knows() -> None:
    of_llama = ask("llamacpp/completion").sampling
    assert (of_llama.order, of_llama.mirostat, of_llama.penalty_window) == (
        ("top_k", "temperature"),
        2,
        9,
    )
    assert of_llama.presence_penalty == 0
    of_vllm = ask("vllm/v1/completions").sampling
    assert (of_vllm.presence_penalty, of_vllm.repetition_penalty) == (0.5, 1.5)
    assert (of_vllm.mirostat, of_vllm.penalty_window, len(of_vllm.order)) == (0, -1, len(CUT_FIRST))
    of_mistral = ask("mistralrs/v1/completions").sampling
    assert (of_mistral.min_p, of_mistral.repetition_penalty) == (0.25, 1.5)
    assert (of_mistral.presence_penalty, of_mistral.mirostat) == (0, 0)


def test_without_sampling_mistral_rs_takes_the_likeliest() -> None:
    greedy = replace(OWN, is_greedy=True)
    of_mistral = ask("mistralrs/v1/completions", greedy).sampling
    assert (of_mistral.top_k, of_mistral.temperature, of_mistral.top_p) == (1, 1.0, 1.0)
    assert of_mistral.repetition_penalty == 1.5
    assert ask("mistralrs/v1/completions", greedy, top_k=5).sampling.top_k == 5
    for other in ("vllm/v1/completions", "llamacpp/completion"):
        assert ask(other, greedy) == ask(other)


@pytest.mark.parametrize("which", [which for which in OPERATIONS if which.startswith(READING)])
def test_what_shows_special_tokens_is_vllms(which: str) -> None:
    shown, hidden = (ModelDefaults(source="f", show_special=shows) for shows in (True, False))
    own = ask(which, None).show_special
    is_kept = which.startswith("vllm")
    assert ask(which, shown).show_special == (True if is_kept else own)
    assert ask(which, hidden).show_special == (False if is_kept else own)
    if is_kept:
        assert ask(which, shown, skip_special_tokens=None).show_special
        assert not ask(which, shown, skip_special_tokens=True).show_special
        assert not ask(which, shown, {"show_special": False}).show_special


def test_a_bound_is_vllms() -> None:
    own = ModelDefaults(source="f", max_tokens=10)
    assert ask("vllm/v1/completions", own).max_tokens == 10
    assert ask("vllm/v1/completions", own, max_tokens=400).max_tokens == 10
    assert ask("vllm/v1/completions", own, max_tokens=4).max_tokens == 4
    assert ask("vllm/v1/completions", own, max_tokens=0, echo=True).max_tokens == 0
    unbounded = {"max_tokens": None}
    assert ask("vllm/v1/completions", own, unbounded).max_tokens == 10
    assert ask("mistralrs/v1/completions", own).max_tokens is None
    assert ask("llamacpp/completion", own, n_predict=400).max_tokens == 400
