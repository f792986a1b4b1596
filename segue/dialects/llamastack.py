"""Llama Stack's OpenAI-compatible completions: boolean logprobs in the chat layout, RFC 7807 errors."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from msgspec import UNSET

from segue.bounds import MAX_INT32
from segue.dialects.base import Card, Companion, Dialect, Difference, Operation, Reply, Service
from segue.dialects.fields.kinds import Boolean, Integer, Lax, Mismatch, Text
from segue.dialects.fields.table import Field
from segue.dialects.openai import fields as openai
from segue.dialects.rendering.chat_logprobs import ChatLogprobs
from segue.dialects.rendering.context_overflow import as_openai
from segue.dialects.rendering.text_completion import LogprobsWriter, TextCompletion
from segue.errors import InvalidField, SegueError, Unavailable
from segue.types import Finished, Prompted

# --- fields --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scored:
    """Whether to report log-probabilities, with one alternative per token."""

    def read(self, value: Any) -> Any:
        if value not in (True, False):  # 1 and 0 are equal to these
            raise Mismatch("true or false", value)
        return 1 if value else UNSET

    def schema(self) -> dict[str, Any]:
        return Boolean().schema()


_NUMBERS = ("seed", "temperature", "top_p", "presence_penalty", "frequency_penalty")

# Llama Stack hands a field that it does not know to the provider, which is the root dialect here.
FIELDS = openai.ROOT.extend(
    Field("model", Text(256), "The name of a served model.", "model", required=True),
    Field("logprobs", Scored(), "Report log-probabilities.", "logprobs"),
    Field(
        "max_tokens",
        Lax(Integer(1, MAX_INT32)),
        "Tokens to generate.",
        "max_tokens",
        aliases=("max_completion_tokens",),
    ),
    *(replace(row, kind=Lax(row.kind)) for row in openai.ROOT.pick(*_NUMBERS).rows),
)

# --- answers -------------------------------------------------------------------------------------


class Completion(TextCompletion):
    def _make_head(self) -> dict[str, Any]:
        head = super()._make_head()
        del head["system_fingerprint"]
        return head

    def _blank(self, index: int) -> dict[str, Any]:
        return {"finish_reason": None, "text": "", "index": index, "logprobs": None}

    def _logprobs_writer(self, num_top: int, prompt: Prompted) -> LogprobsWriter:
        return ChatLogprobs(num_top)

    def _echoed(self, num_top: int, prompt: Prompted) -> dict[str, list[Any]]:
        return ChatLogprobs(num_top).push(prompt.scores or ())

    def _ending(self, finished: Finished) -> dict[str, Any]:
        return {"finish_reason": finished.reason}


def error_reply(error: SegueError) -> Reply:
    title = HTTPStatus(error.status).phrase
    return Reply({"status": error.status, "title": title, "detail": as_openai(error)}, error.status)


def stream_error(error: SegueError) -> Reply:
    """Its clients look for the key `error` in a stream, and for nothing else."""
    return Reply({"error": {"message": as_openai(error), "code": f"{error.status}"}}, error.status)


# --- companions ----------------------------------------------------------------------------------


PROVIDER = "segue"  # the one provider: this server's own engine
PROVIDER_TYPE = "inline::segue"


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


async def list_routes(service: Service, _: Mapping[str, Any]) -> Reply:
    completions = [("POST", each.path) for each in LLAMASTACK.operations]
    pages = [(each.method, each.path) for each in LLAMASTACK.companions]
    return Reply(
        {
            "data": [
                {"route": path, "method": method, "provider_types": [PROVIDER_TYPE]}
                for method, path in [*completions, *pages]
            ]
        }
    )


def _completions(path: str, is_native: bool) -> Operation:
    return Operation(
        path,
        "Complete prompts.",
        FIELDS,
        Completion,
        openai.RULES,
        framing="sse_open",
        stream_error=stream_error,
        exact_model=True,
        is_native=is_native,
    )


DIFFERENCES = (
    Difference(
        "Errors are the objects its documents show: status, title and detail.",
        'The server itself has never sent them, but {"error": …} in several shapes; its clients read the status.',
    ),
    Difference(
        "best_of, echo, suffix, n, and fields that are not its own (top_k, response_format, ...), do what the root "
        "dialect does; a field that nobody knows is named in x-segue-ignored.",
        "Llama Stack hands them to a provider, and what comes of them depends on which.",
    ),
    Difference(
        "max_tokens is 16 by default.",
        "Llama Stack leaves it to the provider; 16 is what OpenAI's and vLLM's have.",
    ),
    Difference(
        "Answers have usage, which its documents leave out; errors have no instance.",
        "The server has always sent the one and never the other; x-request-id tells occurrences apart.",
    ),
    Difference(
        "Streams have the same model name as other answers.",
        "Llama Stack writes the provider's own name into chunks.",
    ),
)

LLAMASTACK = Dialect(
    name="llamastack",
    system="Llama Stack",
    operations=(
        _completions("/v1/completions", is_native=False),
        _completions("/v1/openai/v1/completions", is_native=True),
    ),
    companions=(
        Companion("GET", "/v1/models", "The served models.", list_models),
        Companion("GET", "/v1/models/{model:path}", "One served model.", show_model),
        Companion("GET", "/v1/openai/v1/models", "The served models.", list_models, is_native=True),
        Companion("GET", "/v1/health", "That the server runs.", health, is_public=True),
        Companion("GET", "/v1/version", "The version of this server.", version, is_public=True),
        Companion("GET", "/v1/providers", "What computes answers.", list_providers),
        Companion("GET", "/v1/providers/{provider}", "The same, by its id.", show_provider),
        Companion("GET", "/v1/inspect/routes", "The paths that are served.", list_routes),
    ),
    error=error_reply,
    differences=DIFFERENCES,
)
