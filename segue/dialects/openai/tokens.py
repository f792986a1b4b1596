"""Tokenize, detokenize and tokenizer information, in vLLM's shapes.

Evaluation harnesses count tokens with these, so that their counts are those of the served model.
"""

from collections.abc import Mapping
from typing import Any

from segue.bounds import MAX_DETOKENIZE_TOKENS, MAX_TOKENIZE_CHARS
from segue.dialects.base import Card, Companion, Reply, Service
from segue.dialects.fields.kinds import Boolean, Text, TokenIds
from segue.dialects.fields.table import Field, Table
from segue.dialects.rendering.logprobs import token_text

_MODEL = Field("model", Text(256), "A served name or alias, or `default`.", "model", default="")

TOKENIZE_FIELDS = Table(
    (
        _MODEL,
        Field(
            "prompt",
            Text(MAX_TOKENIZE_CHARS),
            "The text to tokenize.",
            "text",
            aliases=("content",),
            required=True,
        ),
        Field(
            "add_special_tokens",
            Boolean(),
            "Whether a BOS is put in front, if the model wants one.",
            "add_special",
            aliases=("add_special",),
            default=True,
        ),
        Field(
            "parse_special",
            Boolean(),
            "Whether special tokens written in the text are read as such.",
            "parse_special",
            default=True,
        ),
        Field(
            "return_token_strs",
            Boolean(),
            "Whether the tokens are returned as text too.",
            "as_text",
            default=False,
        ),
    )
)

DETOKENIZE_FIELDS = Table(
    (
        _MODEL,
        Field(
            "tokens", TokenIds(MAX_DETOKENIZE_TOKENS), "The ids to join.", "tokens", required=True
        ),
    )
)


async def tokenize(service: Service, values: Mapping[str, Any]) -> Reply:
    model = values["model"]
    tokens = await service.tokenize(
        model,
        values["text"],
        add_special=values["add_special"],
        parse_special=values["parse_special"],
    )
    pieces = await service.pieces(model, tokens) if values["as_text"] else None
    texts = None if pieces is None else await service.convert(token_text, pieces)
    info = _card(service, model).info
    return Reply(
        {
            "count": len(tokens),
            "max_model_len": info.context_length if info else 0,
            "tokens": tokens,
            "token_strs": texts,
        }
    )


async def detokenize(service: Service, values: Mapping[str, Any]) -> Reply:
    pieces = await service.pieces(values["model"], list(values["tokens"]))
    text = b"".join(pieces).decode(errors="replace")
    return Reply({"prompt": text, "content": text})


async def tokenizer_info(service: Service, _: Mapping[str, Any]) -> Reply:
    await service.pieces("", [])  # loads a model that is idle, as its tokenizer's users need it
    info = _card(service, "").info
    known = {} if info is None else {"model_max_length": info.context_length}
    return Reply(
        {
            "tokenizer_class": "GGUF",
            **known,
            "bos_token": (info.bos_token if info else "") or None,
            "eos_token": (info.eos_token if info else "") or None,
            "pad_token": None,
            "chat_template": info.chat_template if info else None,
        }
    )


def _card(service: Service, model: str) -> Card:
    """Of the name, or of the default model where any name means that."""
    cards = service.cards()
    return next((card for card in cards if card.name == model), cards[0])


TOKEN_COMPANIONS = (
    Companion("POST", "/tokenize", "Token ids of a text.", tokenize, TOKENIZE_FIELDS),
    Companion("POST", "/detokenize", "The text of token ids.", detokenize, DETOKENIZE_FIELDS),
    Companion("GET", "/tokenizer_info", "Special tokens and chat template.", tokenizer_info),
)
