"""`/v1/completions` as Ollama writes it: no logprobs, and a choice even where a model was only loaded."""

from typing import Any

from segue.dialects.base import Reply
from segue.dialects.rendering.context_overflow import as_llamacpp
from segue.dialects.rendering.tally import Tally
from segue.dialects.rendering.text_completion import TextCompletion
from segue.errors import SegueError, WrongMethod
from segue.types import Delta, Done, Event, Finished

FINGERPRINT = "fp_ollama"


class Completion(TextCompletion):
    def _make_head(self) -> dict[str, Any]:
        return {**super()._make_head(), "system_fingerprint": FINGERPRINT}

    def _blank(self, index: int) -> dict[str, Any]:
        return {"text": "", "index": index, "finish_reason": None}

    def _ending(self, finished: Finished) -> dict[str, Any]:
        return {"finish_reason": finished.reason}

    def _loaded(self) -> dict[str, Any]:
        return {**self._blank(0), "finish_reason": "load"}

    def push(self, event: Event) -> list[Any]:
        if isinstance(event, Delta) and not event.text:
            return []
        chunks = super().push(event)
        if isinstance(event, Done) and not self._request.prompts:
            return [self._chunk(self._loaded()), *chunks]
        return chunks

    def fold(self, tally: Tally) -> Any:
        whole = super().fold(tally)
        return whole if tally.choices else {**whole, "choices": [self._loaded()]}


_TYPES = {400: "invalid_request_error", 404: "not_found_error"}


def error_reply(error: SegueError) -> Reply:
    if isinstance(error, WrongMethod):
        return Reply("405 method not allowed", 405)
    kind = _TYPES.get(error.status, "api_error")
    detail = {"message": as_llamacpp(error), "type": kind, "param": None, "code": None}
    return Reply({"error": detail}, error.status)
