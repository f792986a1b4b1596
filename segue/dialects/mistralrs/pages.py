"""What mistral.rs's server tells about itself: models, health."""

import contextlib
from collections.abc import Mapping
from typing import Any

from segue.dialects.base import Companion, Reply, Service
from segue.dialects.fields.kinds import Text
from segue.dialects.fields.table import Field, Table
from segue.dialects.mistralrs.metrics import page
from segue.dialects.rendering.loaded import loaded_models
from segue.dialects.rendering.prometheus import CONTENT_TYPE
from segue.errors import UnknownModel

STATUSES = {"ok": "loaded", "loading": "reloading", "idle": "unloaded"}


def _card(name: str, created: int) -> dict[str, Any]:
    about = {"object": "model", "owned_by": "local"}
    return {"id": name, **about, "created": created, "root": name}


async def models(service: Service, _: Mapping[str, Any]) -> Reply:
    """`default` first, which has no status of its own. An adapter names its model."""
    entries = [_card("default", service.card("").created)]
    for card in service.cards():
        parent = {"parent": card.parent} if card.parent else {}
        status = {"status": STATUSES[card.status]}
        entries.append({**_card(card.name, card.created), **parent, **status})
    return Reply({"object": "list", "data": entries})


STATUS_FIELDS = Table(
    (Field("model_id", Text(256), "The name of a model.", "model", required=True),)
)


async def status(service: Service, values: Mapping[str, Any]) -> Reply:
    name = values["model"]
    try:
        found = STATUSES[service.card(name).status]
    except UnknownModel:
        found = "not_found"
    return Reply({"model_id": name, "status": found})


async def unload(service: Service, values: Mapping[str, Any]) -> Reply:
    name = values["model"]
    with contextlib.suppress(UnknownModel):
        if service.card(name).status != "idle":
            await service.unload(name)
            return Reply({"model_id": name, "status": "unloaded"})
    return await status(service, values)


async def reload(service: Service, values: Mapping[str, Any]) -> Reply:
    """Answered once it is loaded."""
    with contextlib.suppress(UnknownModel):
        card = service.card(values["model"])
        if card.status == "idle" or card.is_leaving:
            await service.load(values["model"])
    return await status(service, values)


async def health(service: Service, _: Mapping[str, Any]) -> Reply:
    return Reply("OK")


async def metrics(service: Service, _: Mapping[str, Any]) -> Reply:
    told = page(await loaded_models(service))
    return Reply(told, headers=(("content-type", CONTENT_TYPE),))


PAGES = (
    Companion("GET", "/v1/models", "The served models.", models),
    Companion("POST", "/v1/models/status", "Whether one is loaded.", status, STATUS_FIELDS),
    Companion("GET", "/metrics", "Figures for Prometheus.", metrics),
    Companion(
        "POST",
        "/v1/models/unload",
        "Unload one as soon as nobody uses it.",
        unload,
        STATUS_FIELDS,
    ),
    Companion("POST", "/v1/models/reload", "Load one again.", reload, STATUS_FIELDS),
    Companion("GET", "/health", "Whether the server runs.", health, is_public=True),
    Companion("GET", "/", "The same.", health, is_public=True),
)
