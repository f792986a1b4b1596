"""What else clients ask of the root: models, health, version, tokens."""

from collections.abc import Mapping
from typing import Any

from segue.dialects.base import Card, Companion, Reply, Service
from segue.dialects.openai.tokens import TOKEN_COMPANIONS

LOADING_RETRY_S = 5


def render_card(card: Card) -> dict[str, Any]:
    entry = {"id": card.name, "object": "model", "created": card.created, "owned_by": "segue"}
    return entry if card.known is None else {**entry, "max_model_len": card.known.context_length}


async def list_models(service: Service, _: Mapping[str, Any]) -> Reply:
    return Reply({"object": "list", "data": [render_card(card) for card in service.cards()]})


async def show_model(service: Service, values: Mapping[str, Any]) -> Reply:
    return Reply(render_card(service.card(values["model"])))


async def health(service: Service, _: Mapping[str, Any]) -> Reply:
    """Whether a load balancer should send requests here. An idle model counts as healthy: it loads on demand."""
    card = service.card("")
    status = {"status": card.status, "model": card.name}
    if card.status == "loading":
        return Reply(status, 503, (("retry-after", f"{LOADING_RETRY_S}"),))
    if card.info is None:
        return Reply(status)
    await service.stats(card.name)  # raises while the model's process is being restarted
    about = {
        "runner": card.info.runner,
        "deterministic": card.info.deterministic,
        "system_fingerprint": card.info.fingerprint,
    }
    return Reply({**status, **about})


async def version(service: Service, _: Mapping[str, Any]) -> Reply:
    return Reply({"version": service.version})


PAGES = (
    Companion("GET", "/v1/models", "The served models.", list_models),
    Companion("GET", "/v1/models/{model:path}", "One served model.", show_model),
    Companion(
        "GET", "/health", "Whether completions would be answered now.", health, is_public=True
    ),
    Companion("GET", "/version", "The version of this server.", version),
    *TOKEN_COMPANIONS,
)
