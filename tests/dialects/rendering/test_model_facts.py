import pytest
from msgspec.structs import replace

from segue.dialects.rendering.model_facts import capabilities, details, lengths, short_count
from segue.types import Origin
from tests.support.fakes import INFO

LARGE = replace(
    INFO, num_params=7_615_616_512, origin=Origin(metadata={"llama.embedding_length": 3584})
)


@pytest.mark.parametrize(
    ("count", "short"),
    [
        (134_515_008, "134.52M"),
        (135_000_000, "135M"),
        (7_615_616_512, "7.6B"),
        (8_000_000_000, "8B"),
        (512_000, "512K"),
        (1_500, "2K"),
        (7, "7"),
        (0, ""),
    ],
)
def test_counts_are_as_short_as_ollamas(count: int, short: str) -> None:
    assert short_count(count) == short


def test_details() -> None:
    assert details(LARGE, "base") == {
        "parent_model": "base",
        "format": "gguf",
        "family": "llama",
        "families": ["llama"],
        "parameter_size": "7.6B",
        "quantization_level": "F32",
    }


def test_lengths() -> None:
    assert lengths(LARGE) == {"context_length": 2048, "embedding_length": 3584}
    assert lengths(replace(LARGE, origin=Origin())) == {"context_length": 2048}
    assert lengths(None) == {}


def test_texts_are_there_if_nothing_is_known() -> None:
    """Zed reads these into strings, and no model at all if one of them is missing."""
    texts = ("parent_model", "format", "family", "parameter_size", "quantization_level")
    assert all(isinstance(details(None, parent="")[name], str) for name in texts)


def test_only_models_with_tokens_for_it_insert() -> None:
    assert capabilities(None) == capabilities(INFO) == ["completion"]
    assert capabilities(replace(INFO, has_fim=True)) == ["completion", "insert"]
