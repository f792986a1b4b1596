"""Ollama's pages about itself: its version, the served models and the loaded ones."""

import hashlib
from collections.abc import Mapping
from typing import Any

from segue.dialects.base import Card, Companion, Reply, Service
from segue.dialects.fields.kinds import Boolean, Text
from segue.dialects.fields.table import Field, Table
from segue.dialects.ollama import text
from segue.dialects.ollama.fields import plain_name
from segue.dialects.ollama.generate import timestamp
from segue.types import ModelInfo

CONTRACT_VERSION = "0.33.0"  # the Ollama whose contract this is
FOREVER_S = 100 * 365 * 86_400.0


def _digest(card: Card) -> str:
    """A text that differs from model to model. Clients compare it; it is not a hash of the file."""
    info = card.info
    known = (card.name, info.size_bytes, info.quantization) if info else (card.name,)
    return hashlib.sha256(repr(known).encode()).hexdigest()


def _details(info: ModelInfo | None) -> dict[str, Any]:
    if info is None:
        return {"parent_model": "", "format": "gguf", "family": "", "families": None}
    return {
        "parent_model": "",
        "format": "gguf",
        "family": info.architecture,
        "families": [info.architecture],
        "parameter_size": _short(info.num_params),
        "quantization_level": info.quantization,
        "context_length": info.context_length,
    }


def _short(count: int) -> str:
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if count >= size:
            return f"{count / size:.4g}{unit}"
    return f"{count}"


def _capabilities(info: ModelInfo | None) -> list[str]:
    return ["completion", "insert"] if info and info.has_fim else ["completion"]


def _entry(card: Card) -> dict[str, Any]:
    return {
        "name": card.name,
        "model": card.name,
        "size": card.info.size_bytes if card.info else 0,
        "digest": _digest(card),
        "details": _details(card.info),
    }


async def list_tags(service: Service, _: Mapping[str, Any]) -> Reply:
    models = [
        {
            **_entry(card),
            "modified_at": timestamp(card.created),
            "capabilities": _capabilities(card.info),
        }
        for card in service.cards()
    ]
    return Reply({"models": models})


async def list_running(service: Service, _: Mapping[str, Any]) -> Reply:
    models = [
        {
            **_entry(card),
            "expires_at": _expiry(service, card),
            "size_vram": 0,
            "context_length": card.info.context_length,
        }
        for card in service.cards()
        if card.info is not None
    ]
    return Reply({"models": models})


def _expiry(service: Service, card: Card) -> str:
    left_s = FOREVER_S if card.expires_s is None else min(card.expires_s, FOREVER_S)
    return timestamp(service.now() + left_s)


SHOW_FIELDS = Table(
    (
        Field("model", Text(256), "The name.", "model", aliases=("name",), required=True),
        Field("verbose", Boolean(), "Accepted; there is no more to tell."),
    )
)


async def show(service: Service, values: Mapping[str, Any]) -> Reply:
    card = service.card(plain_name(values["model"]))
    return Reply(
        {
            "modelfile": f"FROM {card.name}\n",
            "parameters": "",
            "template": (card.info.chat_template if card.info else None) or "{{ .Prompt }}",
            "details": _details(card.info),
            "model_info": _model_info(card.info) if card.info else {},
            "capabilities": _capabilities(card.info),
            "modified_at": timestamp(card.created),
        }
    )


def _model_info(info: ModelInfo) -> dict[str, Any]:
    return {
        "general.architecture": info.architecture,
        "general.parameter_count": info.num_params,
        f"{info.architecture}.context_length": info.train_context or info.context_length,
        f"{info.architecture}.vocab_size": info.vocab_size,
    }


async def version(service: Service, _: Mapping[str, Any]) -> Reply:
    return Reply({"version": CONTRACT_VERSION, "segue": service.version})


async def running(service: Service, _: Mapping[str, Any]) -> Reply:
    return Reply("Ollama is running")


# --- /v1 -----------------------------------------------------------------------------------------


def _card(card: Card) -> dict[str, Any]:
    return {"id": card.name, "object": "model", "created": card.created, "owned_by": "library"}


async def list_models(service: Service, _: Mapping[str, Any]) -> Reply:
    return Reply({"object": "list", "data": [_card(card) for card in service.cards()]})


async def show_model(service: Service, values: Mapping[str, Any]) -> Reply:
    return Reply(_card(service.card(plain_name(values["model"]))))


PAGES = (
    Companion("GET", "/", "That the server runs.", running, is_public=True),
    Companion(
        "GET",
        "/api/version",
        "The version of Ollama whose contract this is.",
        version,
        is_native=True,
    ),
    Companion("GET", "/api/tags", "The served models.", list_tags, is_native=True),
    Companion("GET", "/api/ps", "The loaded models.", list_running, is_native=True),
    Companion("POST", "/api/show", "One served model.", show, SHOW_FIELDS, is_native=True),
    Companion("GET", "/v1/models", "The served models.", list_models),
    Companion(
        "GET", "/v1/models/{model:path}", "One served model.", show_model, error=text.error_reply
    ),
)
