"""What vLLM's server tells about itself: tokens, models, health, load."""

from collections.abc import Mapping
from typing import Any

from segue.dialects.base import Card, Companion, Reply, Service
from segue.dialects.fields import Field, Table
from segue.dialects.kinds import Boolean, OnlyEmpty, Text, TokenIds
from segue.dialects.logprobs import token_text
from segue.errors import Unavailable

CONTRACT_VERSION = "0.32.0"  # the vLLM whose contract this is
MAX_PROMPT_CHARS = 2**24
LOADING_RETRY_S = 5.0

MODEL = Field("model", Text(256), "A served name.", "model", default="")

# --- tokens --------------------------------------------------------------------------------------

TOKENIZE_FIELDS = Table(
    (
        MODEL,
        Field("prompt", Text(MAX_PROMPT_CHARS), "The text.", "prompt", required=True),
        Field(
            "add_special_tokens",
            Boolean(),
            "Put BOS in front, if the model wants one.",
            "add_special",
            default=True,
        ),
        Field(
            "return_token_strs",
            Boolean(),
            "Tell each token's text too.",
            "with_texts",
            default=False,
        ),
        Field("messages", OnlyEmpty("only text is tokenized here"), "Not served."),
    )
)


async def tokenize(service: Service, values: Mapping[str, Any]) -> Reply:
    model = service.card(values["model"]).name
    tokens = await service.tokenize(
        model, values["prompt"], add_special=values["add_special"], parse_special=True
    )
    texts = None
    if values["with_texts"]:
        texts = [token_text(piece) for piece in await service.pieces(model, tokens)]
    info = service.card(model).info
    return Reply(
        {
            "count": len(tokens),
            "max_model_len": info.context_length if info else None,
            "tokens": tokens,
            "token_strs": texts,
        }
    )


DETOKENIZE_FIELDS = Table(
    (MODEL, Field("tokens", TokenIds(), "Token ids.", "tokens", required=True))
)


async def detokenize(service: Service, values: Mapping[str, Any]) -> Reply:
    model = service.card(values["model"]).name
    pieces = await service.pieces(model, list(values["tokens"]))
    return Reply({"prompt": b"".join(pieces).decode(errors="replace")})


async def tokenizer_info(service: Service, _: Mapping[str, Any]) -> Reply:
    card = service.card("")
    if card.info is None:
        raise Unavailable(f"the model {card.name!r} is not loaded", retry_after_s=LOADING_RETRY_S)
    return Reply(
        {
            "tokenizer_class": card.info.architecture,
            "bos_token": card.info.bos_token or None,
            "eos_token": card.info.eos_token or None,
            "chat_template": card.info.chat_template,
            "model_max_length": card.info.context_length,
            "vocab_size": card.info.vocab_size,
        }
    )


TOKENIZER = (
    Companion("POST", "/tokenize", "Text as tokens.", tokenize, TOKENIZE_FIELDS),
    Companion("POST", "/detokenize", "Tokens as text.", detokenize, DETOKENIZE_FIELDS),
    Companion("GET", "/tokenizer_info", "The tokenizer's settings.", tokenizer_info),
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
        "root": card.name,
        "parent": None,
        "max_model_len": card.info.context_length if card.info else None,
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
    total = 0
    for card in service.cards():
        if card.info is not None:
            stats = await service.stats(card.name)
            total += stats.running + stats.waiting
    return Reply({"server_load": total})


async def version(service: Service, _: Mapping[str, Any]) -> Reply:
    return Reply({"version": CONTRACT_VERSION, "segue": service.version})


PAGES = (
    *TOKENIZER,
    Companion("GET", "/v1/models", "The served models.", list_models),
    Companion("GET", "/health", "Empty, with 503 if completions would fail.", health),
    Companion("GET", "/ping", "The same.", health),
    Companion("POST", "/ping", "The same.", health),
    Companion("GET", "/load", "How many sequences run or wait.", load),
    Companion("GET", "/version", "The version of vLLM whose contract this is.", version),
)
