"""Llama Stack's OpenAI-compatible completions: log-probabilities in two layouts, RFC 7807 errors."""

from http import HTTPStatus
from typing import Any

from segue.dialects.base import Call, Dialect, Difference, Operation, Reply
from segue.dialects.llamastack.fields import FIELDS, RULES
from segue.dialects.llamastack.pages import COMPLETIONS, FORMER, PAGES
from segue.dialects.rendering.chat_logprobs import ChatLogprobs
from segue.dialects.rendering.context_overflow import as_openai
from segue.dialects.rendering.text_completion import LogprobsWriter, TextCompletion
from segue.errors import SegueError
from segue.types import Finished, Prompted


class Completion(TextCompletion):
    def __init__(self, call: Call):
        super().__init__(call)
        self._is_documented = call.shape.get("logprobs") is True

    def _make_head(self) -> dict[str, Any]:
        head = super()._make_head()
        del head["system_fingerprint"]
        return head

    def _blank(self, index: int) -> dict[str, Any]:
        return {"finish_reason": None, "text": "", "index": index, "logprobs": None}

    def _logprobs_writer(self, num_top: int, prompt: Prompted) -> LogprobsWriter:
        if self._is_documented:
            return ChatLogprobs(num_top)
        return super()._logprobs_writer(num_top, prompt)

    def _echoed(self, num_top: int, prompt: Prompted) -> dict[str, list[Any]]:
        if self._is_documented:
            return ChatLogprobs(num_top).push(prompt.scores or ())
        return super()._echoed(num_top, prompt)

    def _ending(self, finished: Finished) -> dict[str, Any]:
        return {"finish_reason": finished.reason}


def error_reply(error: SegueError) -> Reply:
    title = HTTPStatus(error.status).phrase
    return Reply({"status": error.status, "title": title, "detail": as_openai(error)}, error.status)


def stream_error(error: SegueError) -> Reply:
    """Its clients look for the key `error` in a stream, and for nothing else."""
    return Reply({"error": {"message": as_openai(error), "code": f"{error.status}"}}, error.status)


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
        "logprobs may be true or false, as in Llama Stack until 0.7, or a number up to 5, as in OGX, its name now. "
        "With true they are in the layout of its documents, `content`; with a number in OpenAI's.",
        "Each of the two refuses what the other takes. Both hand on what the provider wrote, which is OpenAI's layout.",
    ),
    Difference(
        "A prompt may mix texts and token ids; an id is an integer, not 1.0 or true.",
        "The root dialect's may, and reads ids strictly; Llama Stack has it the other way round.",
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
        "Llama Stack wrote the provider's own name into chunks; OGX does as here.",
    ),
)

LLAMASTACK = Dialect(
    name="llamastack",
    system="Llama Stack",
    operations=tuple(
        Operation(
            path,
            "Complete prompts.",
            FIELDS,
            Completion,
            RULES,
            framing="sse_open",
            stream_error=stream_error,
            exact_model=True,
            is_native=path.startswith(FORMER),
        )
        for path in COMPLETIONS
    ),
    companions=PAGES,
    error=error_reply,
    differences=DIFFERENCES,
)
