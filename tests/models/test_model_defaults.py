"""What a model's own files say of sampling, and what is made of values that no sampler could use."""

import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest

from segue.errors import SetupError
from segue.models import gguf, model_defaults
from segue.models.model_defaults import choices, in_words, of_choice, of_config, of_gguf, of_named
from segue.types import STEP_NAMES, ModelDefaults
from tests.support.models.tiny_gguf import write_tiny_gguf

EVERY_KEY: dict[str, Any] = {
    "sequence": "top-k;typ_p;Nucleus;temp",
    "top_k": 20,
    "top_p": 0.95,
    "min_p": 0.05,
    "xtc_probability": 0.1,
    "xtc_threshold": 0.2,
    "temp": 0.6,
    "penalty_last_n": 32,
    "penalty_repeat": 1.1,
    "mirostat": 2,
    "mirostat_tau": 4.5,
    "mirostat_eta": 0.2,
}
EVERY_FIELD: dict[str, Any] = {
    "order": ("top_k", "typical_p", "top_p", "temperature"),
    "top_k": 20,
    "top_p": 0.95,
    "min_p": 0.05,
    "xtc_probability": 0.1,
    "xtc_threshold": 0.2,
    "temperature": 0.6,
    "penalty_window": 32,
    "repetition_penalty": 1.1,
    "mirostat": 2,
    "mirostat_tau": 4.5,
    "mirostat_eta": 0.2,
}


def header(array: str = "", **sampling: Any) -> gguf.GgufHeader:
    metadata = {f"general.sampling.{key}": value for key, value in sampling.items()}
    lengths = {f"general.sampling.{array}": 1} if array else {}
    return gguf.GgufHeader("llama", metadata, lengths, (), 0)


def test_a_file_has_every_key_that_llama_cpp_reads(tmp_path: Path) -> None:
    """Floats of 32 bits are the decimals that were written."""
    path = write_tiny_gguf(tmp_path / "tiny.gguf", sampling=EVERY_KEY)
    found = of_gguf(gguf.header(path), path.name)
    assert found.problems == ()
    assert found.defaults == ModelDefaults(source="tiny.gguf", sampling=EVERY_FIELD)


def test_a_file_without_keys_has_nothing(tiny_gguf: Path) -> None:
    assert of_gguf(gguf.header(tiny_gguf), "tiny.gguf") == (None, ())


@pytest.mark.model
def test_the_embedded_model_has_nothing(embedded_gguf: Path) -> None:
    """Its known answers are those of the dialects' own defaults."""
    assert of_gguf(gguf.header(embedded_gguf), "x") == (None, ())


BAD: list[Any] = [math.nan, math.inf, -math.inf, -5.0, 1e30, "0.7", "", True]


@pytest.mark.parametrize("key", [key for key in EVERY_KEY if key != "sequence"])
@pytest.mark.parametrize("value", BAD, ids=repr)
def test_a_value_that_cannot_be_used_is_left_out_and_named(key: str, value: Any) -> None:
    found = of_gguf(header(**{"top_k": 7, key: value} if key != "top_k" else {key: value}), "f")
    [problem] = found.problems
    assert problem.startswith(f"general.sampling.{key} must be a")
    kept = None if found.defaults is None else found.defaults.sampling
    assert kept == (None if key == "top_k" else {"top_k": 7})


def test_a_list_is_no_number() -> None:
    [problem] = of_gguf(header("temp"), "f").problems
    assert problem.endswith("not a list")
    [problem] = of_gguf(header("sequence"), "f").problems
    assert "names of steps" in problem


def test_a_whole_number_may_be_written_as_any_number() -> None:
    found = of_gguf(header(top_k=20.0, temp=1, penalty_last_n=2.5), "f")
    assert found.defaults is not None
    assert found.defaults.sampling == {"top_k": 20, "temperature": 1.0}
    assert [type(value) for value in found.defaults.sampling.values()] == [int, float]
    assert found.problems == ("general.sampling.penalty_last_n must be a whole number, not 2.5",)


def test_a_negative_top_k_is_off() -> None:
    found = of_gguf(header(top_k=-1), "f")
    assert found.defaults is not None
    assert found.defaults.sampling == {"top_k": 0}


@pytest.mark.parametrize("name", STEP_NAMES)
def test_a_step_may_have_any_of_its_names(name: str) -> None:
    """`typical` was not known."""
    found = of_gguf(header(sequence=f"dry;{name}"), "f")
    assert not found.problems
    assert found.defaults is not None
    assert found.defaults.sampling == {"order": ("dry", STEP_NAMES[name])}


def test_a_step_that_is_not_known_is_left_out_of_the_order() -> None:
    found = of_gguf(header(sequence="top_k;magic;temperature"), "f")
    assert found.defaults is not None
    assert found.defaults.sampling == {"order": ("top_k", "temperature")}
    assert found.problems == (
        "general.sampling.sequence names 'magic', which is no step of sampling",
    )


@pytest.mark.parametrize("value", ["", "magic", "top_k;" * 99, 3])
def test_an_order_of_nothing_is_none(value: Any) -> None:
    found = of_gguf(header(sequence=value), "f")
    assert found.defaults is None
    [problem] = found.problems
    assert len(problem) < 200


# --- generation_config.json ----------------------------------------------------------------------

CONFIG = {
    "temperature": 0.6,
    "top_k": 20,
    "top_p": 0.95,
    "min_p": None,
    "repetition_penalty": 1.05,
    "eos_token_id": [1, 2],
    "do_sample": True,
    "transformers_version": "5.0.0",
}


def test_a_generation_config_is_read() -> None:
    found = of_config(CONFIG, "generation_config.json")
    assert found.problems == ()
    assert found.defaults == ModelDefaults(
        source="generation_config.json",
        sampling={"temperature": 0.6, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.05},
    )
    found = of_config({"do_sample": False, "max_new_tokens": 99, "presence_penalty": 1}, "f")
    assert found.defaults == ModelDefaults(
        source="f", sampling={"presence_penalty": 1.0}, is_greedy=True, max_tokens=99
    )
    found = of_config({"skip_special_tokens": False}, "f")
    assert found.defaults == ModelDefaults(source="f", show_special=True)
    assert of_config({"eos_token_id": 2, "do_sample": True}, "f").defaults is None


@pytest.mark.parametrize("key", ["temperature", "top_k", "frequency_penalty", "max_new_tokens"])
@pytest.mark.parametrize("value", ["hot", -3, 1e300, [1], {}, True], ids=repr)
def test_what_it_says_wrongly_is_named(key: str, value: Any) -> None:
    found = of_config({"top_p": 0.5, key: value}, "f")
    [problem] = found.problems
    assert problem.startswith(f"{key} must be a")
    assert found.defaults == ModelDefaults(source="f", sampling={"top_p": 0.5})


def test_a_flag_is_no_number() -> None:
    found = of_config({"top_p": 0.5, "skip_special_tokens": 0}, "f")
    assert found.problems == ("skip_special_tokens must be true or false, not 0",)
    assert found.defaults == ModelDefaults(source="f", sampling={"top_p": 0.5})


# --- where they come from ------------------------------------------------------------------------


@pytest.fixture
def named(tmp_path: Path) -> Path:
    file = tmp_path / "generation_config.json"
    file.write_text(json.dumps(CONFIG))
    return file


def test_a_choice_is_for_all_models_or_for_one(named: Path) -> None:
    assert choices((), ["a", "b"]) == {"a": "auto", "b": "auto"}
    assert choices(("vllm",), ["a", "b"]) == {"a": "off", "b": "off"}
    assert choices((f"a={named}", "off"), ["a", "b"]) == {"a": named, "b": "off"}
    assert choices((str(named.parent),), ["a"]) == {"a": named}
    assert choices(("off", "a=auto"), ["a", "b"]) == {"a": "auto", "b": "off"}


@pytest.mark.parametrize("text", ["none", "./nowhere", "c=off", ""])
def test_what_is_no_choice_is_an_error_that_says_what_is_one(text: str, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="write auto, off, or the path"):
        choices((text or str(tmp_path),), ["a", "b"])


def test_a_file_is_chosen_in_place_of_what_the_model_says(named: Path, tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", sampling={"temp": 0.25, "min_p": 0.5})
    own = of_choice("auto", path)
    assert own is not None
    assert own.sampling == {"temperature": 0.25, "min_p": 0.5}
    assert of_choice("off", path) is None
    assert of_choice("auto", None) is None
    other = of_choice(named, path)
    assert other is not None
    assert (other.source, other.sampling["temperature"]) == ("generation_config.json", 0.6)
    assert "min_p" not in other.sampling


def test_a_models_mistake_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", sampling={"temp": math.nan, "top_k": "many"})
    with caplog.at_level(logging.WARNING):
        assert of_choice("auto", path) is None
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    for line, key in zip(lines, ("top_k", "temp"), strict=True):
        assert f"tiny.gguf is left out: general.sampling.{key} must be" in line


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"temperature": "hot"}', "temperature must be a number"),
        (b'{"temperature": NaN}', "is not JSON"),
        (b'{"temperature": 1e999}', "is not JSON"),
        (b"{", "is not JSON"),
        (b"", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1]", "must be a JSON object"),
        (b" " * ((1 << 20) + 1), "is larger than"),
    ],
)
def test_a_named_file_must_be_right(named: Path, content: bytes, words: str) -> None:
    named.write_bytes(content)
    with pytest.raises(SetupError, match=words) as refused:
        of_named(named)
    assert str(named) in refused.value.message
    with pytest.raises(SetupError, match=words):
        choices((str(named),), ["a"])  # at the start, not when the model is loaded


def test_words_for_people(caplog: pytest.LogCaptureFixture) -> None:
    own = ModelDefaults(
        source="f",
        sampling={"temperature": 0.6, "order": ("top_k",)},
        is_greedy=True,
        max_tokens=9,
        show_special=True,
    )
    words = (
        "temperature 0.6, order top_k, do_sample false, max_new_tokens 9, skip_special_tokens false"
    )
    assert in_words(own) == words
    with caplog.at_level(logging.INFO):
        model_defaults.announce("tiny", own)
    assert "tiny: sampling defaults by f: temperature 0.6" in caplog.text
