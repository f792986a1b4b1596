"""Endpoints of llama.cpp's server besides completions: tokens, properties, health."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from segue.bounds import MAX_DETOKENIZE_TOKENS, MAX_TOKENIZE_CHARS
from segue.dialects.base import Operation, Reply, Service, Stamp
from segue.dialects.fields.adapter_fields import LORA
from segue.dialects.fields.kinds import Boolean, Text, TokenIds
from segue.dialects.fields.prompt_kinds import MixedText
from segue.dialects.fields.table import Field, Table
from segue.dialects.llamacpp.metrics import page
from segue.dialects.llamacpp.settings import generation_settings
from segue.dialects.rendering.prometheus import CONTENT_TYPE
from segue.errors import Unavailable, Unsupported
from segue.types import ModelInfo, Stats

# --- tokens --------------------------------------------------------------------------------------

MODEL = Field("model", Text(256), "A served name or alias, or `default`.", "model", default="")

TOKENIZE_FIELDS = Table(
    (
        MODEL,
        Field(
            "content",
            MixedText(MAX_TOKENIZE_CHARS, keeps_empty=True),
            "Text, or a mix of texts and token ids.",
            "parts",
            default=(),
            nullable=False,
        ),
        Field(
            "add_special",
            Boolean(),
            "Put BOS in front, if the model wants one.",
            "add_special",
            default=False,
        ),
        Field(
            "parse_special",
            Boolean(),
            'Whether "<|im_end|>" in text means the token.',
            "parse_special",
            default=True,
        ),
        Field(
            "with_pieces", Boolean(), "Tell each token's text too.", "with_pieces", default=False
        ),
    )
)


async def tokenize(service: Service, values: Mapping[str, Any]) -> Reply:
    tokens: list[int] = []
    for part in values["parts"]:
        tokens += (
            part
            if isinstance(part, tuple)
            else await service.tokenize(
                values["model"],
                part,
                add_special=values["add_special"] and not tokens,
                parse_special=values["parse_special"],
            )
        )
    if not values["with_pieces"]:
        return Reply({"tokens": tokens})
    pieces = await service.pieces(values["model"], tokens)

    def pair(index: int) -> dict[str, Any]:
        return {"id": tokens[index], "piece": _piece(pieces[index])}

    return Reply({"tokens": await service.convert(pair, range(len(tokens)))})


def _piece(piece: bytes) -> str | list[int]:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)


DETOKENIZE_FIELDS = Table(
    (
        MODEL,
        Field(
            "tokens",
            TokenIds(MAX_DETOKENIZE_TOKENS),
            "Token ids.",
            "tokens",
            default=(),
            nullable=False,
        ),
    )
)


async def detokenize(service: Service, values: Mapping[str, Any]) -> Reply:
    pieces = await service.pieces(values["model"], list(values["tokens"]))
    return Reply({"content": b"".join(pieces).decode(errors="replace")})


# --- the server ----------------------------------------------------------------------------------

LOADING = "Loading model"
SLEEPING = "The model is not loaded: the next completion loads it, as /models/load does."
_PROBE = Stamp(request_id="", public_id="", created=0, seed=None, fingerprint="")


# Of several models the one that is looked at: there, a query of the server that routes to them.
WHICH = Table((MODEL,))


def ready(service: Service, model: str) -> ModelInfo:
    """The model's facts. Raises Unavailable until it is loaded."""
    card = service.meant(model)
    if card.info is None:
        raise Unavailable(LOADING if card.status == "loading" else SLEEPING)
    return card.info


async def health(service: Service, _: Mapping[str, Any]) -> Reply:
    if service.card("").status == "loading":
        raise Unavailable(LOADING)
    return Reply({"status": "ok"})


@dataclass(frozen=True)
class Props:
    """`/props`. The defaults are those of an empty request to this operation."""

    operation: Operation

    async def __call__(self, service: Service, values: Mapping[str, Any]) -> Reply:
        card = service.meant(values["model"])
        if card.known is None or card.status == "loading":
            raise Unavailable(LOADING)
        info = card.known
        stats = await service.stats(info.name) if card.info else Stats()
        call = self.operation.parse({"prompt": [0]}, _PROBE, service.defaults)
        call = self.operation.fill(call, info, service.defaults)
        return Reply(
            {
                "default_generation_settings": {
                    "params": generation_settings(call),
                    "n_ctx": info.context_length,
                },
                "total_slots": stats.slots_total,
                "model_alias": info.name,
                "model_ftype": info.quantization,
                "model_path": info.file,
                "modalities": {"vision": False, "video": False, "audio": False},
                "media_marker": "",
                "endpoint_slots": True,
                "endpoint_props": False,
                "endpoint_metrics": True,
                "ui": False,
                "ui_settings": {},
                # A front end that finds null here breaks.
                "chat_template": info.chat_template or "",
                "chat_template_caps": {},
                "bos_token": info.bos_token,
                "eos_token": info.eos_token,
                "build_info": f"segue-{service.version}",
                "is_sleeping": card.info is None,
                "cors_proxy_enabled": False,
                # What llama.cpp has no word for: whether the same request gives the same bytes.
                "deterministic": info.deterministic,
                "system_fingerprint": info.fingerprint,
            }
        )


async def set_props(service: Service, _: Mapping[str, Any]) -> Reply:
    raise Unsupported("The settings of this server cannot be changed while it runs.")


# The server has these paths too, and answers so unless it was started for them alone.
UNSERVED = {
    "/embedding": "embeddings",
    "/embeddings": "embeddings",
    "/v1/embeddings": "embeddings",
    "/rerank": "reranking",
    "/reranking": "reranking",
    "/v1/rerank": "reranking",
    "/v1/reranking": "reranking",
    "/v1/systemone": "decisions",
}


@dataclass(frozen=True)
class Refusal:
    what: str

    async def __call__(self, service: Service, _: Mapping[str, Any]) -> Reply:
        raise Unsupported(f"This server does not support {self.what}, only completions.")


async def list_adapters(service: Service, values: Mapping[str, Any]) -> Reply:
    """In the order of their numbers. The scale is that of requests which say nothing of adapters."""
    return Reply(
        [
            {
                "id": number,
                "path": adapter.file,
                "name": adapter.name,
                "scale": adapter.applied,
                "task_name": "",
                "prompt_prefix": "",
            }
            for number, adapter in enumerate(service.adapters(values["model"]))
        ]
    )


ADAPTER_FIELDS = Table((MODEL, replace(LORA, required=True, doc="Adapters and their scales.")))


async def apply_adapters(service: Service, values: Mapping[str, Any]) -> Reply:
    """The body is the list itself."""
    await service.apply_adapters(values["model"], values["adapters"])
    return Reply({"success": True})


async def metrics(service: Service, values: Mapping[str, Any]) -> Reply:
    stats = await service.stats(ready(service, values["model"]).name)
    headers = (
        ("content-type", CONTENT_TYPE),
        ("process-start-time-unix", f"{service.card('').created}"),
    )
    return Reply(page(stats), headers=headers)
