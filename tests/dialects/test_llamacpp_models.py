"""llama.cpp's `/v1/models`."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from segue.dialects.llamacpp.model_pages import VOCAB_TYPES, models
from segue.runners.llama import c_api
from segue.types import ModelInfo, Origin
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.one_card import CHATTY, OneCard

METADATA: dict[str, str | int | float | bool | None] = {
    "tokenizer.ggml.model": "gpt2",
    "llama.embedding_length": 576,
}
KNOWN = replace(CHATTY, train_context=8192, origin=Origin(num_bytes=98, metadata=METADATA))


def listed(info: ModelInfo) -> Any:
    async def reply() -> Any:
        return (await models(OneCard(info), {})).body

    return asyncio.run(reply())


def test_figures_of_the_model() -> None:
    (card,) = listed(KNOWN)["data"]
    assert card["meta"] == {
        "vocab_type": 2,
        "n_vocab": 256,
        "n_ctx": 2048,
        "n_ctx_train": 8192,
        "n_embd": 576,
        "n_params": 1,
        "size": 1,
        "ftype": "F32",
    }


def test_a_model_cannot_be_removed() -> None:
    """Its server that routes to several models would delete what it downloaded itself."""
    (card,) = listed(KNOWN)["data"]
    assert (card["source"], card["can_remove"]) == ("preset", False)


def test_texts_stay_texts() -> None:
    """llama.cpp has an empty text for each of them, so that is what clients in typed languages read."""
    (model,) = listed(KNOWN)["models"]
    texts = ("modified_at", "size", "digest", "type", "description", "parameters")
    assert all(isinstance(model[name], str) for name in texts)
    assert model["size"] == "98"


@pytest.mark.parametrize("tokenizer", ["gpt2", "llama"])
def test_kinds_of_vocabulary_have_llama_cpps_numbers(tmp_path: Path, tokenizer: str) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", tokenizer=tokenizer)
    api, model = c_api.load(), c_api.open_model(str(path), vocab_only=True)
    kind = api.llama_vocab_type(api.llama_model_get_vocab(model))
    api.llama_model_free(model)
    assert kind == VOCAB_TYPES[tokenizer]
