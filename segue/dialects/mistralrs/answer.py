"""Completions and errors as mistral.rs writes them: its own log-probabilities and usage."""

from typing import Any

from segue.dialects.base import Call, Reply
from segue.dialects.rendering.logprobs import finite, token_text
from segue.dialects.rendering.tally import Tally
from segue.dialects.rendering.template import Template, hole
from segue.errors import InvalidField, PromptTooLong, SegueError
from segue.types import CompletionRequest, Delta, Event, Finished, Prompted, TokenScore


class Completion:
    def __init__(self, call: Call):
        self._request = call.request
        self._suffix = _suffix(call.request)
        self._templates: dict[int, Template] = {}  # of a choice's chunks with text
        self._head: dict[str, Any] = {
            "id": call.stamp.public_id,
            "created": call.stamp.created,
            "model": call.model,
            "system_fingerprint": "local",
            "object": "text_completion",
        }

    def push(self, event: Event) -> list[Any]:
        match event:
            case Delta():
                return self._pieces(event.choice, event.text, event.scores or ())
            case Prompted() if self._request.echo:
                n = self._request.n
                choices = range(event.prompt * n, (event.prompt + 1) * n)
                text, scores = event.text or "", tuple(event.scores or ())
                return [each for i in choices for each in self._pieces(i, text, scores)]
            case Finished():
                end = self._chunk(_choice(event.choice, "", None, event.reason))
                suffix = self._pieces(event.choice, self._suffix, ()) if self._suffix else []
                return [*suffix, end]
            case _:
                return []

    def _pieces(self, index: int, text: str, scores: tuple[TokenScore, ...]) -> list[Any]:
        """A chunk can hold the log-probability of one token only: the rest follow without text."""
        entries = [self._entry(score) for score in scores]
        template = self._templates.get(index)
        if template is None:
            pattern = self._chunk(_choice(index, hole("text"), hole("logprobs")))
            template = self._templates[index] = Template(pattern)
        first = template.fill({"text": text, "logprobs": entries[0] if entries else None})
        return [first, *(template.fill({"text": "", "logprobs": each}) for each in entries[1:])]

    def _chunk(self, choice: dict[str, Any]) -> dict[str, Any]:
        return {**self._head, "choices": [choice]}

    def _entry(self, score: TokenScore) -> dict[str, Any]:
        top = score.top[: self._request.logprobs or 0]
        return {
            "token": token_text(score.piece),
            "logprob": None if score.logprob is None else finite(score.logprob),
            "bytes": list(score.piece),
            "top_logprobs": [
                {
                    "token": other.token,
                    "logprob": finite(other.logprob),
                    "bytes": token_text(other.piece),
                }
                for other in top
            ],
        }

    def fold(self, tally: Tally) -> Any:
        choices = [self._fold_choice(tally, index) for index in range(len(tally.choices))]
        return {**self._head, "choices": choices, "usage": render_usage(tally)}

    def _fold_choice(self, tally: Tally, index: int) -> dict[str, Any]:
        choice, prompt = tally.choices[index], tally.prompts[index // tally.n]
        text, scores = choice.text, choice.scores
        if self._request.echo:
            text, scores = (prompt.text or "") + text, [*(prompt.scores or ()), *scores]
        logprobs = None
        if self._request.logprobs is not None:
            logprobs = {"content": [self._entry(score) for score in scores]}
        return _choice(index, text + self._suffix, logprobs, choice.finished.reason)


def _suffix(request: CompletionRequest) -> str:
    """It returns the suffix behind the completion."""
    parts = request.infill.suffix.parts if request.infill else ()
    return "".join(part for part in parts if isinstance(part, str))


def _choice(index: int, text: Any, logprobs: Any, reason: str | None = None) -> dict[str, Any]:
    return {"finish_reason": reason, "index": index, "text": text, "logprobs": logprobs}


def render_usage(tally: Tally) -> dict[str, Any]:
    """Choices run side by side, so the longest time counts."""
    ends = [choice.finished for choice in tally.choices]
    prompt_s = max(end.prompt_s for end in ends)
    decode_s = max(end.decode_s for end in ends)
    num_prompt, num_decoded = tally.usage.prompt_tokens, tally.usage.completion_tokens
    total, total_s = num_prompt + num_decoded, prompt_s + decode_s
    return {
        "completion_tokens": num_decoded,
        "prompt_tokens": num_prompt,
        "total_tokens": total,
        "prompt_tokens_details": {"cached_tokens": tally.usage.cached_tokens},  # since 0.9.5
        "avg_tok_per_sec": _rate(total, total_s),
        "avg_prompt_tok_per_sec": _rate(num_prompt, prompt_s),
        "avg_compl_tok_per_sec": _rate(num_decoded, decode_s),
        "total_time_sec": total_s,
        "total_prompt_time_sec": prompt_s,
        "total_completion_time_sec": decode_s,
    }


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds else 0.0


# --- errors --------------------------------------------------------------------------------------

UNPROCESSABLE = (InvalidField, PromptTooLong)


def _message(error: SegueError) -> str:
    if not isinstance(error, PromptTooLong):
        return error.message
    limit = error.details.get("n_ctx", "the context length")
    hint = "perhaps consider using `truncate_sequence`?"
    return f"Prompt sequence length is greater than {limit}, {hint} ({error.message})"


def error_reply(error: SegueError) -> Reply:
    status = 422 if isinstance(error, UNPROCESSABLE) else error.status
    return Reply({"message": _message(error)}, status)


def stream_error(error: SegueError) -> Reply:
    detail = {"message": _message(error), "type": "server_error", "param": None, "code": None}
    return Reply({"error": detail})
