"""`/v1/models`: the served models in OpenAI's layout, with llama.cpp's own figures, and beside it in Ollama's; and
loading and unloading of one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from msgspec.json import encode

from segue.dialects.base import Card, Flow, Reply, Service
from segue.dialects.fields.table import Table
from segue.dialects.llamacpp.pages import MODEL
from segue.dialects.rendering import model_facts
from segue.dialects.rendering.dates import timestamp
from segue.errors import InvalidField
from segue.types import ModelChange, ModelInfo

# The numbers of its kinds of vocabulary, by the tokenizer's name in a GGUF.
VOCAB_TYPES = {
    "llama": 1,
    "gpt2": 2,
    "hybriddna": 2,
    "whitespace": 2,
    "gemma4": 2,
    "bert": 3,
    "t5": 4,
    "rwkv": 5,
    "plamo2": 6,
}


async def models(service: Service, _: Mapping[str, Any]) -> Reply:
    cards = [card for card in service.cards() if not card.is_alias]
    return Reply(
        {
            "models": [_listed(card) for card in cards],
            "object": "list",
            "data": [_described(card) for card in cards],
        }
    )


LOAD_FIELDS = Table((replace(MODEL, doc="The name of a served model.", required=True),))
# The words of its server that routes to several models.
STATUSES = {"ok": "loaded", "loading": "loading", "idle": "unloaded"}


async def load(service: Service, values: Mapping[str, Any]) -> Reply:
    """Answered once it is loaded, so that what is wrong with it is told."""
    card = service.card(values["model"])
    if card.status == "ok" and not card.is_leaving:
        raise InvalidField("model is already running", "model")
    await service.load(values["model"])
    return Reply({"success": True})


async def unload(service: Service, values: Mapping[str, Any]) -> Reply:
    if service.card(values["model"]).status == "idle":
        raise InvalidField("model is not running", "model")
    await service.unload(values["model"])
    return Reply({"success": True})


async def events(service: Service, _: Mapping[str, Any]) -> Reply:
    """Under the names that its server gives them: the beginning of a load has another than what follows."""

    def render(change: ModelChange | None) -> bytes:
        if change is None:
            return b": keep-alive\n\n"
        told = [_told(card, change) for card in service.cards() if _is_about(card, change)]
        return b"".join(b"data: %b\n\n" % encode(each) for each in told)

    return Reply(Flow(service.watch(), render))


def _is_about(card: Card, change: ModelChange) -> bool:
    """The model itself, or one of its adapters."""
    return change.model == (card.parent or card.name) and not card.is_alias


def _told(card: Card, change: ModelChange) -> dict[str, Any]:
    data: dict[str, Any] = {"status": STATUSES[change.status]}
    if change.status == "ok" and card.info is not None:
        data["info"] = {name: value for name, value in _described(card).items() if name in _INFO}
    if change.status == "idle":
        data["exit_code"] = int(change.failed)
    event = "model_status" if change.status == "loading" else "status_change"
    return {"model": card.name, "event": event, "data": data}


_INFO = frozenset({"id", "aliases", "tags", "object", "created", "owned_by", "meta"})


def _described(card: Card) -> dict[str, Any]:
    return {
        "id": card.name,
        "aliases": card.aliases,
        "tags": [],
        "object": "model",
        "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
        "created": card.created,
        "owned_by": "llamacpp",
        "status": {"value": STATUSES[card.status]},
        "source": "preset",  # named by who runs the server: neither its download nor found in a folder
        "can_remove": False,
        "meta": None if card.known is None else _meta(card.known),
    }


def _meta(info: ModelInfo) -> dict[str, Any]:
    tokenizer = info.origin.metadata.get("tokenizer.ggml.model")
    return {
        "vocab_type": VOCAB_TYPES.get(f"{tokenizer}", 0),
        "n_vocab": info.vocab_size,
        "n_ctx": info.context_length,
        "n_ctx_train": info.train_context,
        "n_embd": model_facts.embedding_length(info),
        "n_params": info.num_params,
        "size": info.size_bytes,
        "ftype": info.quantization,
    }


def _listed(card: Card) -> dict[str, Any]:
    """llama.cpp leaves these texts empty. All of them are texts there, so clients read texts."""
    return {
        "name": card.name,
        "model": card.name,
        "modified_at": timestamp(model_facts.modified(card)),
        "size": f"{model_facts.file_size(card)}",
        "digest": model_facts.digest(card),
        "type": "model",
        "description": "",
        "tags": [],
        "capabilities": ["completion"],
        "parameters": "",
        "details": model_facts.details(card.known, card.parent),
    }
