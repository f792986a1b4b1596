"""Completions and errors as vLLM writes them: members that have no value are there as null."""

from typing import Any

from segue.dialects.base import Reply
from segue.dialects.rendering.context_overflow import as_openai
from segue.dialects.rendering.logprobs import LegacyLogprobs
from segue.dialects.rendering.tally import Meter, Tally
from segue.dialects.rendering.text_completion import LogprobsWriter, TextCompletion
from segue.errors import (
    InvalidField,
    Overloaded,
    PromptTooLong,
    SegueError,
    Unauthorized,
    UnknownModel,
    UnknownPath,
    Unsupported,
    UnsupportedMedia,
    WrongMethod,
)
from segue.types import Done, Event, Finished, Prompted, Usage

# Of a choice in an answer that is not streamed, in vLLM's order.
_MEMBERS = (
    *("index", "text", "logprobs", "finish_reason", "stop_reason"),
    *("token_ids", "prompt_logprobs", "prompt_token_ids", "routed_experts", "weight_versions"),
)
_UNTOLD_DETAILS = ("created_cache_tokens", "multimodal_tokens")
_WEIGHTS = "default"  # vLLM's label of weights that nobody has replaced


def render_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "completion_tokens": usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def whole_usage(usage: Usage) -> dict[str, Any]:
    """With what has no value, as null: in answers of one object, and in chunks of /inference/v1/generate."""
    told = render_usage(usage)
    details = {**told["prompt_tokens_details"], **dict.fromkeys(_UNTOLD_DETAILS)}
    return {**told, "prompt_tokens_details": details, "completion_tokens_details": None}


def ended(finished: Finished, is_told: bool) -> dict[str, Any]:
    """How a choice ended, and if it is to be told, which weights drew its tokens."""
    ending: dict[str, Any] = {"finish_reason": finished.reason, "stop_reason": finished.stop}
    if finished.cause == "repetition":
        ending = {"finish_reason": "repetition", "stop_reason": "repetition_detected"}
    return {**ending, "weight_versions": _spans(finished.num_tokens)} if is_told else ending


class Completion(TextCompletion):
    _finished: Finished | None = None  # the choice that ended last

    def _make_head(self) -> dict[str, Any]:
        stamp = self._call.stamp
        is_ours = stamp.public_id == stamp.request_id  # the header has the last word
        chosen = self._call.shape.get("request_id") if is_ours else None
        self._fingerprint = {"system_fingerprint": stamp.fingerprint}
        return {
            "id": f"cmpl-{chosen or stamp.public_id}",
            "object": "text_completion",
            "created": stamp.created,
            "model": self._call.model,
        }

    def _blank(self, index: int) -> dict[str, Any]:
        return {
            "index": index,
            "text": "",
            "logprobs": None,
            "finish_reason": None,
            "stop_reason": None,
            "prompt_token_ids": None,
            "token_ids": None,
            "weight_versions": None,
        }

    def _logprobs_writer(self, num_top: int, prompt: Prompted) -> LogprobsWriter:
        # Offsets count from the start of the choice's text, which has the prompt only with echo.
        start = len(prompt.text or "") if self._request.echo else 0
        return LegacyLogprobs(num_top, start, self._name_token)

    def _open_choices(self, prompt: Prompted) -> list[dict[str, Any]]:
        """In a stream, ids come with the echo, asked for or not."""
        ids = {"prompt_token_ids": prompt.tokens} if self._request.echo else {}
        return [{**choice, **ids} for choice in super()._open_choices(prompt)]

    def _ending(self, finished: Finished) -> dict[str, Any]:
        is_told = self._call.shape.get("weight_versions") and not self._request.beam_search
        return ended(finished, bool(is_told))

    def _usage_so_far(self, meter: Meter, choice: int) -> Usage:
        return meter.usage_of(choice)

    def _usage(self, usage: Usage) -> dict[str, Any]:
        return render_usage(usage)

    def push(self, event: Event) -> list[Any]:
        chunks = super().push(event)
        if isinstance(event, Finished):
            self._finished = event
        if isinstance(event, Done) or (isinstance(event, Finished) and not self._include_usage):
            chunks = [{**chunk, **self._fingerprint} for chunk in chunks]
        if isinstance(event, Done) and chunks and (told := self._metrics(self._finished)):
            chunks = [{**chunk, "metrics": told} for chunk in chunks]
        return chunks

    def _metrics(self, finished: Finished | None) -> dict[str, Any] | None:
        """Of an answer with one choice; of several, no time is the answer's."""
        request = self._request
        is_one = len(request.prompts) == request.num_candidates == 1 and not request.beam_search
        return _times(finished) if finished is not None and is_one else None

    def _chunk(self, choice: dict[str, Any]) -> dict[str, Any]:
        chunk = super()._chunk(choice)
        chunk.setdefault("usage", None)
        chunk["kv_transfer_params"] = None
        return chunk

    def fold(self, tally: Tally) -> Any:
        if self._prompt_top is None and self._request.echo:
            # Scores that the echo has are told by token id, too.
            self._prompt_top = self._request.logprobs
        whole = super().fold(tally)
        whole["choices"] = [
            {key: choice.get(key) for key in _MEMBERS} for choice in whole["choices"]
        ]
        whole.pop("usage")
        return {
            **whole,
            "service_tier": None,
            **self._fingerprint,
            "usage": whole_usage(tally.usage),
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": self._metrics(tally.choices[0].finished),
        }


def _times(finished: Finished) -> dict[str, Any]:
    """How long a request waited is known at its end only, by the server."""
    num_tokens = finished.num_tokens
    whole_s = finished.prompt_s + finished.decode_s
    is_drawn, has_gaps = num_tokens > 0, num_tokens > 1
    return {
        "time_to_first_token_ms": 1000 * finished.prompt_s if is_drawn else None,
        "generation_time_ms": 1000 * finished.decode_s if is_drawn else None,
        "queue_time_ms": None,
        "mean_itl_ms": 1000 * finished.decode_s / (num_tokens - 1) if has_gaps else None,
        "tokens_per_second": num_tokens / whole_s if is_drawn and whole_s else None,
        "speculative_decoding": None,
    }


def _spans(num_tokens: int) -> list[dict[str, Any]]:
    """Which weights drew the tokens: the same drew all of them."""
    return [{"version": _WEIGHTS, "start": 0, "end": num_tokens}] if num_tokens else []


# --- errors --------------------------------------------------------------------------------------

_TYPES: dict[type[SegueError], str] = {
    UnknownModel: "NotFoundError",
    Unsupported: "NotImplementedError",
    Overloaded: "Service Unavailable",
}
_TYPES_BY_STATUS = {503: "ServiceUnavailableError", 504: "ServiceUnavailableError"}

# Those of the framework under it, which are shaped like nothing else.
_DETAILS: dict[type[SegueError], str] = {
    UnknownPath: "Not Found",
    WrongMethod: "Method Not Allowed",
}

_STATUSES: dict[type[SegueError], int] = {UnsupportedMedia: 400, Overloaded: 503}


def error_reply(error: SegueError) -> Reply:
    kind = type(error)
    status = _STATUSES.get(kind, error.status)
    if kind in _DETAILS:
        hint = error.hint if isinstance(error, UnknownPath) else ""
        return Reply({"detail": f"{_DETAILS[kind]}. {hint}" if hint else _DETAILS[kind]}, status)
    if kind is Unauthorized:
        return Reply({"error": "Unauthorized"}, status)
    fallback = "BadRequestError" if status < 500 else "InternalServerError"
    named = _TYPES.get(kind) or _TYPES_BY_STATUS.get(status, fallback)
    param = "input_tokens" if kind is PromptTooLong else error.param
    message = as_openai(error)
    if kind is InvalidField and param:
        message = f"{message} (parameter={param})"
    detail = {"message": message, "type": named, "param": param, "code": status}
    return Reply({"error": detail}, status)
