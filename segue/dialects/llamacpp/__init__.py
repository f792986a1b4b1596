"""llama.cpp's server: `/v1/completions`, its native `/completion`, and the pages its clients read."""

from dataclasses import replace

from segue.dialects.base import Companion, Dialect, Operation, Reply
from segue.dialects.fields.adapter_fields import LORA
from segue.dialects.fields.infill_fields import describe_gap
from segue.dialects.llamacpp import model_pages, pages, slot_pages, stream_pages
from segue.dialects.llamacpp.chat import TEMPLATE_FIELDS, apply_template
from segue.dialects.llamacpp.differences import DIFFERENCES
from segue.dialects.llamacpp.fields import (
    NATIVE_FIELDS,
    NATIVE_RULES,
    OF_MODEL,
    OPENAI_FIELDS,
    OPENAI_RULES,
    complain_as_schema,
)
from segue.dialects.llamacpp.infill import INFILL_FIELDS, lay_out_gap
from segue.dialects.llamacpp.native import Native
from segue.dialects.llamacpp.text import Completion
from segue.dialects.openai.fields import check_candidates
from segue.dialects.rendering.context_overflow import as_llamacpp, figures_of
from segue.errors import PromptTooLong, SegueError

ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    501: "not_supported_error",
    503: "unavailable_error",
}


def error_reply(error: SegueError) -> Reply:
    kind = ERROR_TYPES.get(
        error.status, "invalid_request_error" if error.status < 500 else "server_error"
    )
    if isinstance(error, PromptTooLong):
        kind = "exceed_context_size_error"
    detail = {
        "code": error.status,
        "message": as_llamacpp(error),
        "type": kind,
        **figures_of(error),
    }
    return Reply({"error": detail}, error.status)


CONVERSATION = b"x-conversation-id"


def _native(path: str, *, is_native: bool) -> Operation:
    return Operation(
        path,
        "Complete prompts, in llama.cpp's own shape.",
        NATIVE_FIELDS,
        Native,
        NATIVE_RULES,
        framing="sse_open",
        is_native=is_native,
        of_model=OF_MODEL,
        complaint=complain_as_schema,
        name_header=CONVERSATION,
    )


COMPLETION = _native("/completion", is_native=True)

INFILL = replace(
    COMPLETION,
    path="/infill",
    doc="Fill the gap at the cursor of an editor.",
    table=INFILL_FIELDS,
    rules=(lay_out_gap, describe_gap, check_candidates, *NATIVE_RULES),
)

LLAMACPP = Dialect(
    name="llamacpp",
    system="llama.cpp's server",
    operations=(
        Operation(
            "/v1/completions",
            "Complete prompts.",
            OPENAI_FIELDS,
            Completion,
            OPENAI_RULES,
            of_model=OF_MODEL,
            complaint=complain_as_schema,
            name_header=CONVERSATION,
        ),
        COMPLETION,
        INFILL,
        # Without the prefix this path would be mistaken for OpenAI's.
        _native("/completions", is_native=False),
    ),
    companions=(
        Companion("POST", "/tokenize", "Text to token ids.", pages.tokenize, pages.TOKENIZE_FIELDS),
        Companion(
            "POST", "/detokenize", "Token ids to text.", pages.detokenize, pages.DETOKENIZE_FIELDS
        ),
        Companion(
            "GET",
            "/health",
            "Whether completions would be answered now.",
            pages.health,
            is_public=True,
        ),
        Companion("GET", "/v1/health", "The same.", pages.health, is_public=True),
        Companion("GET", "/v1/models", "The served models.", model_pages.models),
        Companion("GET", "/models", "The same.", model_pages.models),
        Companion(
            "POST",
            "/models/load",
            "Load a model; answered once it is loaded.",
            model_pages.load,
            model_pages.LOAD_FIELDS,
            is_native=True,
        ),
        Companion(
            "POST",
            "/models/unload",
            "Unload a model as soon as nobody uses it.",
            model_pages.unload,
            model_pages.LOAD_FIELDS,
            is_native=True,
        ),
        Companion(
            "GET",
            "/models/sse",
            "Events, as models are loaded and unloaded.",
            model_pages.events,
            is_native=True,
            is_flow=True,
        ),
        Companion(
            "GET",
            "/v1/stream",
            "A stream whose request had X-Conversation-Id, from any of its bytes on.",
            stream_pages.read,
            stream_pages.STREAM_FIELDS,
            is_native=True,
            knows_key=True,
            is_flow=True,
        ),
        Companion(
            "DELETE",
            "/v1/stream",
            "Stop such a stream.",
            stream_pages.stop,
            stream_pages.STOP_FIELDS,
            is_native=True,
            knows_key=True,
            is_counted=False,
        ),
        Companion(
            "POST",
            "/v1/streams/lookup",
            "Which of these streams there are.",
            stream_pages.look_up,
            stream_pages.LOOKUP_FIELDS,
            is_native=True,
            knows_key=True,
            is_counted=False,
        ),
        Companion("GET", "/metrics", "Figures for Prometheus.", pages.metrics, pages.WHICH),
        Companion(
            "GET",
            "/props",
            "The default settings and the model.",
            pages.Props(COMPLETION),
            pages.WHICH,
            is_native=True,
        ),
        Companion(
            "GET",
            "/slots",
            "What is being computed, and with --slot-save-path what your slots hold.",
            slot_pages.slots,
            slot_pages.SLOTS_FIELDS,
            is_native=True,
            knows_key=True,
        ),
        Companion(
            "POST",
            "/apply-template",
            "Messages as the prompt that the model's chat template makes of them.",
            apply_template,
            TEMPLATE_FIELDS,
            is_native=True,
        ),
        Companion(
            "POST",
            "/slots/{id_slot}",
            "Save what a slot holds to a file, restore it, or erase it. 501 without --slot-save-path.",
            slot_pages.act_on_slot,
            slot_pages.ACTION_FIELDS,
            is_native=True,
            adds_query=True,
            of_query=("action",),
            knows_key=True,
        ),
        Companion(
            "GET",
            "/lora-adapters",
            "LoRA adapters, and the scales at which they are applied.",
            pages.list_adapters,
            pages.WHICH,
            is_native=True,
        ),
        Companion(
            "POST",
            "/lora-adapters",
            "Set those scales; an adapter that is not listed is off.",
            pages.apply_adapters,
            pages.ADAPTER_FIELDS,
            is_native=True,
            list_field=LORA.name,
            adds_query=True,
        ),
        Companion("POST", "/props", "Answers 501: settings stay.", pages.set_props, is_native=True),
        *(
            Companion("POST", path, f"Answers 501: no {what} here.", pages.Refusal(what))
            for path, what in pages.UNSERVED.items()
        ),
    ),
    error=error_reply,
    json_only=False,
    differences=DIFFERENCES,
)
