"""Ollama's pages about itself: its version, the served models and the loaded ones."""

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from segue.bounds import MAX_TEXT_CHARS
from segue.dialects.base import Card, Companion, Reply, Service
from segue.dialects.fields.kinds import AnyObject, Boolean, Text
from segue.dialects.fields.table import Field, Table
from segue.dialects.ollama import show as about
from segue.dialects.ollama import text
from segue.dialects.ollama.fields import plain_name, tagged_name
from segue.dialects.rendering.dates import timestamp
from segue.dialects.rendering.model_facts import (
    capabilities,
    details,
    digest,
    file_size,
    lengths,
    modified,
)
from segue.errors import InvalidField

# The Ollama whose contract this is: the first that tells cached tokens. Clients that see 0.35 or newer ask for
# decisions (`/v1/systemone`), which are not made here.
CONTRACT_VERSION = "0.33.3"
FOREVER_S = 100 * 365 * 86_400.0


def _entry(card: Card) -> dict[str, Any]:
    return {
        "name": tagged_name(card.name),
        "model": tagged_name(card.name),
        "size": file_size(card),
        "digest": digest(card),
        "details": details(card.known, card.parent),
    }


async def list_tags(service: Service, _: Mapping[str, Any]) -> Reply:
    models = [
        {
            **_entry(card),
            "details": {**details(card.known, card.parent), **lengths(card.known)},
            "modified_at": timestamp(modified(card)),
            "capabilities": capabilities(card.known),
        }
        for card in service.cards()
    ]
    return Reply({"models": models})


async def list_running(service: Service, _: Mapping[str, Any]) -> Reply:
    """Each model once: its aliases and adapters are no further memory."""
    models = [
        {
            **_entry(card),
            "size": card.info.size_bytes,
            "expires_at": _expiry(service, card),
            "size_vram": card.info.size_bytes if card.info.on_gpu else 0,
            "context_length": card.info.context_length,
        }
        for card in service.cards()
        if card.info is not None and not card.is_alias and not card.parent
    ]
    return Reply({"models": models})


def _expiry(service: Service, card: Card) -> str:
    left_s = FOREVER_S if card.expires_s is None else min(card.expires_s, FOREVER_S)
    return timestamp(service.now() + left_s)


SHOW_FIELDS = Table(
    (
        Field("model", Text(256), "The name.", "model", aliases=("name",), required=True),
        Field(
            "verbose",
            Boolean(),
            "Tell the vocabulary and the tensors too, if the model is loaded.",
            "verbose",
            default=False,
        ),
        Field("system", Text(MAX_TEXT_CHARS), "No effect."),
        Field("template", Text(MAX_TEXT_CHARS), "No effect."),
        Field("options", AnyObject(), "No effect."),
    )
)


async def show(service: Service, values: Mapping[str, Any]) -> Reply:
    if not values["model"]:
        raise InvalidField("model is required", "model")
    card = service.card(plain_name(values["model"]))
    info = card.known
    found = await service.lists(card.name) if values["verbose"] else {}
    lists = {key: Raw(each) for key, each in found.items()}
    tensors = lists.pop("tensors", None)
    template, licence = about.template(info), about.licence(info)
    parameters = about.parameters(info, service.defaults)
    known: dict[str, Any] = {
        "modelfile": about.modelfile(card.name, template, parameters, licence),
        "parameters": about.columns(parameters),
        "template": template,
        "template_source": about.template_source(info),
        "details": details(info, card.parent),
        "model_info": about.model_info(info, lists) if info else {},
        "capabilities": capabilities(info),
        "modified_at": timestamp(modified(card)),
    }
    if licence:
        known["license"] = licence
    if tensors is not None:
        known["tensors"] = tensors
    return Reply(known)


async def version(service: Service, _: Mapping[str, Any]) -> Reply:
    return Reply({"version": CONTRACT_VERSION, "segue": service.version})


async def running(service: Service, _: Mapping[str, Any]) -> Reply:
    return Reply("Ollama is running")


# --- /v1 -----------------------------------------------------------------------------------------


def _card(card: Card, name: str) -> dict[str, Any]:
    created = int(modified(card))
    return {"id": name, "object": "model", "created": created, "owned_by": "library"}


async def list_models(service: Service, _: Mapping[str, Any]) -> Reply:
    cards = [_card(card, tagged_name(card.name)) for card in service.cards()]
    return Reply({"object": "list", "data": cards})


async def show_model(service: Service, values: Mapping[str, Any]) -> Reply:
    name = values["model"]
    return Reply(_card(service.card(plain_name(name)), name))


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
