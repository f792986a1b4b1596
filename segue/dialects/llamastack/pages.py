"""What else clients ask of Llama Stack: models, health, version, providers, routes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from segue.dialects.base import Card, Companion, Reply, Service
from segue.dialects.fields.kinds import Word
from segue.dialects.fields.table import Field, Table
from segue.errors import InvalidField, Unavailable

PROVIDER = "segue"  # the one provider: this server's own engine
PROVIDER_TYPE = "inline::segue"

FORMER = "/v1/openai/v1/"  # where OpenAI's paths were until 0.4
ADMIN = "/v1alpha/admin/"  # where OGX has pages about itself, beside those of Llama Stack
COMPLETIONS = ("/v1/completions", f"{FORMER}completions")


def render_card(card: Card) -> dict[str, Any]:
    """In today's layout and, for older clients, in that of 2025."""
    metadata = {"context_length": card.known.context_length} if card.known else {}
    origin = {"model_type": "llm", "provider_id": PROVIDER, "provider_resource_id": card.name}
    today = {"id": card.name, "object": "model", "created": card.created, "owned_by": "llama_stack"}
    former = {"identifier": card.name, "type": "model", "metadata": metadata, **origin}
    return {**today, "custom_metadata": {**origin, **metadata}, **former}


async def list_models(service: Service, _: Mapping[str, Any]) -> Reply:
    return Reply({"object": "list", "data": [render_card(card) for card in service.cards()]})


async def show_model(service: Service, values: Mapping[str, Any]) -> Reply:
    return Reply(render_card(service.card(values["model"])))


async def health(service: Service, _: Mapping[str, Any]) -> Reply:
    return Reply({"status": "OK"})


async def version(service: Service, _: Mapping[str, Any]) -> Reply:
    return Reply({"version": service.version})


async def _provider(service: Service) -> dict[str, Any]:
    """It is well unless its model is being started again: an idle one is loaded when it is asked for."""
    health = {"status": "OK"}
    try:
        if service.card("").info is not None:
            await service.stats("")
    except Unavailable as error:
        health = {"status": "Error", "message": error.message}
    return {
        "api": "inference",
        "provider_id": PROVIDER,
        "provider_type": PROVIDER_TYPE,
        "config": {},
        "health": health,
    }


async def list_providers(service: Service, _: Mapping[str, Any]) -> Reply:
    return Reply({"data": [await _provider(service)]})


async def show_provider(service: Service, values: Mapping[str, Any]) -> Reply:
    if values["provider"] != PROVIDER:
        raise InvalidField(f"Provider {values['provider']} not found", "provider_id")
    return Reply(await _provider(service))


ROUTES_FIELDS = Table(
    (
        Field(
            "api_filter",
            Word("v1", "v1alpha", "v1beta", "deprecated", unset=None),
            "Of which level; all that are not deprecated, if it is not given.",
            "level",
            default="",
        ),
    )
)


async def list_routes(service: Service, values: Mapping[str, Any]) -> Reply:
    """Those of 2025 are of v1 and deprecated too: they are listed either way."""
    routes = [("POST", path) for path in COMPLETIONS] + [(page.method, page.path) for page in PAGES]
    begins = {"": "/", "deprecated": FORMER}.get(values["level"], f"/{values['level']}/")
    shown = [route for route in routes if route[1].startswith(begins)]
    data = [
        {"route": path, "method": method, "provider_types": [PROVIDER_TYPE]}
        for method, path in shown
    ]
    return Reply({"data": data})


_ABOUT = (
    Companion("GET", "/v1/health", "That the server runs.", health, is_public=True),
    Companion("GET", "/v1/version", "The version of this server.", version, is_public=True),
    Companion("GET", "/v1/providers", "What computes answers.", list_providers),
    Companion("GET", "/v1/providers/{provider}", "The same, by its id.", show_provider),
    Companion(
        "GET", "/v1/inspect/routes", "The paths that are served.", list_routes, ROUTES_FIELDS
    ),
)


def _as_admin(page: Companion) -> Companion:
    """There none is public, in OGX too."""
    return replace(page, path=page.path.replace("/v1/", ADMIN), is_public=False)


PAGES = (
    Companion("GET", "/v1/models", "The served models.", list_models),
    Companion("GET", "/v1/models/{model:path}", "One served model.", show_model),
    Companion("GET", f"{FORMER}models", "The served models.", list_models, is_native=True),
    *_ABOUT,
    *map(_as_admin, _ABOUT),
)
