"""What vLLM's server tells about itself: tokens, models, health, load."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from segue.bounds import MAX_DETOKENIZE_TOKENS
from segue.dialects.base import Card, Companion, Reply, Service
from segue.dialects.fields.table import Table
from segue.dialects.openai import tokens
from segue.dialects.rendering.loaded import loaded_models
from segue.dialects.rendering.prometheus import CONTENT_TYPE
from segue.dialects.vllm.fields import lenient
from segue.dialects.vllm.kinds import LaxTokenIds
from segue.dialects.vllm.metrics import page
from segue.errors import Unavailable

CONTRACT_VERSION = "0.33.0"  # the vLLM whose contract this is
LOADING_RETRY_S = 5.0

# --- tokens --------------------------------------------------------------------------------------


async def tokenize(service: Service, values: Mapping[str, Any]) -> Reply:
    service.card(values["model"])  # raises for a name that is not served
    return await tokens.tokenize(service, values)


async def detokenize(service: Service, values: Mapping[str, Any]) -> Reply:
    service.card(values["model"])
    return await tokens.detokenize(service, values)


TOKENIZE_FIELDS = Table(
    tuple(
        lenient(replace(row, nullable=row.name != "add_special_tokens"))
        for row in tokens.TOKENIZE_FIELDS.rows
    )
)
DETOKENIZE_FIELDS = tokens.DETOKENIZE_FIELDS.extend(
    *(
        replace(row, kind=LaxTokenIds(MAX_DETOKENIZE_TOKENS))
        for row in tokens.DETOKENIZE_FIELDS.pick("tokens").rows
    )
)

TOKENIZER = (
    Companion("POST", "/tokenize", "Text as tokens.", tokenize, TOKENIZE_FIELDS),
    Companion("POST", "/detokenize", "Tokens as text.", detokenize, DETOKENIZE_FIELDS),
    Companion("GET", "/tokenizer_info", "The tokenizer's settings.", tokens.tokenizer_info),
)

# --- the server ----------------------------------------------------------------------------------


def render_card(card: Card) -> dict[str, Any]:
    permission = {
        "id": f"modelperm-{card.name}",
        "object": "model_permission",
        "created": card.created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    return {
        "id": card.name,
        "object": "model",
        "created": card.created,
        "owned_by": "vllm",
        "root": card.known.name if card.is_alias and card.known else card.name,
        "parent": card.parent or None,
        "max_model_len": card.known.context_length if card.known else None,
        "permission": [permission],
    }


async def list_models(service: Service, _: Mapping[str, Any]) -> Reply:
    return Reply({"object": "list", "data": [render_card(card) for card in service.cards()]})


async def health(service: Service, _: Mapping[str, Any]) -> Reply:
    """An empty 200. An idle model is healthy: it loads when it is asked for."""
    card = service.card("")
    if card.status == "loading":
        raise Unavailable(f"the model {card.name!r} is loading", retry_after_s=LOADING_RETRY_S)
    if card.info is not None:
        await service.stats(card.name)  # raises while the model's process is being restarted
    return Reply("")


async def load(service: Service, _: Mapping[str, Any]) -> Reply:
    loaded = (await loaded_models(service)).values()
    return Reply({"server_load": sum(each.stats.running + each.stats.waiting for each in loaded)})


async def metrics(service: Service, _: Mapping[str, Any]) -> Reply:
    return Reply(page(await loaded_models(service)), headers=(("content-type", CONTENT_TYPE),))


async def version(service: Service, _: Mapping[str, Any]) -> Reply:
    return Reply({"version": CONTRACT_VERSION, "segue": service.version})


PAGES = (
    *TOKENIZER,
    Companion("GET", "/v1/models", "The served models.", list_models),
    Companion(
        "GET", "/health", "Empty, with 503 if completions would fail.", health, is_public=True
    ),
    Companion("GET", "/ping", "The same.", health, is_public=True),
    Companion("POST", "/ping", "The same.", health, is_public=True),
    Companion("GET", "/load", "How many sequences run or wait.", load),
    Companion("GET", "/metrics", "Figures for Prometheus.", metrics),
    Companion("GET", "/version", "The version of vLLM whose contract this is.", version),
)
