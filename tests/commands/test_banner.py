"""What a server says of itself at its start."""

import pytest
from msgspec.structs import replace

from segue.commands.banner import banner
from segue.config import Settings
from segue.types import ModelDefaults, Origin
from tests.support.fakes import INFO


def test_it_says_what_a_person_wants_to_know() -> None:
    words = banner(replace(INFO, runner="cpu"), Settings(threads=2), "http://127.0.0.1:8080")
    for wanted in ("http://127.0.0.1:8080/", "tiny", "2 threads", "2,048", "same bytes", "none"):
        assert wanted in words
    assert "adapters" not in words
    assert "draft" not in words
    assert "sampling" not in words
    assert "asked for" in banner(INFO, Settings(api_keys=("a:b",)), "http://x")


def test_it_tells_the_size_of_the_file_as_the_list_of_models_does() -> None:
    """It told that of the tensors, a megabyte less."""
    info = replace(INFO, size_bytes=96_600_000, origin=Origin(num_bytes=98_362_432))
    assert ", 98.4 MB)" in banner(info, Settings(), "http://x")
    assert ", 96.6 MB)" in banner(replace(info, origin=Origin()), Settings(), "http://x")


@pytest.mark.parametrize(
    ("runner", "threads", "words"),
    [
        ("cpu", 1, "cpu, 1 thread"),
        ("cpu", 256, "cpu, 256 threads"),
        ("cpu", 300, "cpu, 256 threads (its most; not 300)"),
        ("llama", 300, "llama, 300 threads"),
        ("vllm", 300, "vllm"),
    ],
)
def test_it_names_the_threads_that_are_used(runner: str, threads: int, words: str) -> None:
    lines = banner(replace(INFO, runner=runner), Settings(threads=threads), "http://x").splitlines()
    (told,) = [line.split(None, 1)[1] for line in lines if line.split()[0] == "runner"]
    assert told == words


def test_it_names_adapters_and_the_draft_model() -> None:
    settings = Settings(
        lora=("sql=/models/a.gguf@0.5", "/models/b.gguf"), draft="/models/small.gguf"
    )
    words = banner(INFO, settings, "http://x")
    assert "sql (a.gguf, scale 0.5), b (b.gguf, scale 1, for every request)" in words
    assert "draft model  small" in words


def test_it_tells_the_models_own_sampling_defaults() -> None:
    own = ModelDefaults(source="tiny.gguf", sampling={"temperature": 0.6, "top_k": 20})
    words = banner(replace(INFO, defaults=own), Settings(), "http://x")
    assert "temperature 0.6, top_k 20 (tiny.gguf), for the dialects that read them" in words


def test_it_tells_a_context_that_is_not_the_models_own() -> None:
    """8,192 tokens of a model of 131,072 were served without a word."""
    info = replace(INFO, context_length=8192)
    for own, words in (
        (0, "contexts up to 8,192\n"),
        (8192, "contexts up to 8,192\n"),
        (131_072, "contexts up to 8,192 of the model's 131,072 (--context-length)\n"),
        (4096, "contexts up to 8,192, more than the 4,096 that the model was made for\n"),
    ):
        assert words in banner(replace(info, train_context=own), Settings(), "http://x")
    small = replace(info, context_length=32, kv_tokens=32, train_context=8192)
    assert "32 of the model's 8,192 (--kv-memory-mib)" in banner(
        small, Settings(kv_memory_mib=1), "http://x"
    )


def test_it_tells_what_kv_is_kept_in_where_that_was_chosen() -> None:
    assert "2,048 tokens of KV, contexts" in banner(INFO, Settings(), "http://x")
    assert "2,048 tokens of KV in q8_0, contexts" in banner(
        INFO, Settings(kv_type="q8_0"), "http://x"
    )


def test_it_tells_what_states_take() -> None:
    info = replace(INFO, num_states=64, state_bytes=22_400_000)
    wanted = "2,048 tokens of KV, states of 64 sequences (22.4 MB each), contexts up to 2,048"
    assert wanted in banner(info, Settings(), "http://x")
    assert "states of 1 sequence (" in banner(replace(info, num_states=1), Settings(), "http://x")
    assert "states" not in banner(INFO, Settings(), "http://x")
