"""Events as OpenAI's `text_completion` objects: one a Delta when streamed, or all of it in one."""

from typing import Any

from segue.dialects.base import Call
from segue.dialects.logprobs import LegacyLogprobs, echoed, prompt_scores
from segue.dialects.tally import Choice, Meter, Tally
from segue.types import Delta, Done, Event, Finished, Progress, Prompted, Usage


def render_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def render_progress(progress: Progress) -> dict[str, Any]:
    return {
        "total": progress.num_tokens,
        "cache": progress.num_cached,
        "processed": progress.num_read,
        "time_ms": progress.prompt_s * 1000,
    }


class TextCompletion:
    def __init__(self, call: Call):
        self._request = call.request
        self._prompt_top: int | None = call.shape.get("prompt_logprobs")
        self._include_usage: bool = call.shape.get("include_usage", False)
        is_metered = self._include_usage and call.shape.get("continuous_usage", False)
        self._meter = Meter() if is_metered else None
        self._logprobs: dict[int, LegacyLogprobs] = {}
        self._head: dict[str, Any] = {
            "id": f"cmpl-{call.stamp.public_id}",
            "object": "text_completion",
            "created": call.stamp.created,
            "model": call.request.model,
            "system_fingerprint": call.stamp.fingerprint,
        }

    def push(self, event: Event) -> list[Any]:
        if self._meter:
            self._meter.push(event)
        match event:
            case Delta():
                return [self._chunk(self._render_delta(event))]
            case Prompted():
                return [self._chunk(choice) for choice in self._open_choices(event)]
            case Finished():
                return [self._chunk({**_blank(event.choice), **self._ending(event)})]
            case Progress():
                blank = _blank(event.prompt * self._request.n)
                return [{**self._chunk(blank), "prompt_progress": render_progress(event)}]
            case Done() if self._include_usage:
                return [{**self._head, "choices": [], "usage": self._usage(event.usage)}]
            case _:
                return []

    def _chunk(self, choice: dict[str, Any]) -> dict[str, Any]:
        chunk = {**self._head, "choices": [choice]}
        if self._include_usage:
            chunk["usage"] = self._usage(self._meter.usage) if self._meter else None
        return chunk

    def _ending(self, finished: Finished) -> dict[str, Any]:
        return {"finish_reason": finished.reason, "stop_reason": finished.stop}

    def _usage(self, usage: Usage) -> dict[str, Any]:
        return render_usage(usage)

    def _render_delta(self, delta: Delta) -> dict[str, Any]:
        writer = self._logprobs.get(delta.choice)
        return {
            "index": delta.choice,
            "text": delta.text,
            "logprobs": writer.push(delta.scores) if writer and delta.scores else None,
            "finish_reason": None,
        }

    def _open_choices(self, prompt: Prompted) -> list[dict[str, Any]]:
        """What a prompt's choices begin with: the prompt itself with echo, often nothing."""
        n = self._request.n
        choices = range(prompt.prompt * n, (prompt.prompt + 1) * n)
        if self._request.logprobs is not None:
            start = len(prompt.text or "")
            for choice in choices:
                self._logprobs[choice] = LegacyLogprobs(self._request.logprobs, start)
        opening = self._opening(prompt)
        return [{**_blank(choice), **opening} for choice in choices] if opening else []

    def _opening(self, prompt: Prompted) -> dict[str, Any]:
        opening: dict[str, Any] = {}
        if self._request.echo:
            opening["text"] = prompt.text or ""
            if self._request.logprobs is not None:
                opening["logprobs"] = echoed(prompt, self._request.logprobs)
        if self._prompt_top is not None:
            opening["prompt_logprobs"] = prompt_scores(prompt, self._prompt_top)
        return opening

    def fold(self, tally: Tally) -> Any:
        openings = [(prompt, self._opening(prompt)) for prompt in tally.prompts]
        return {
            **self._head,
            "choices": [
                self._fold_choice(index, choice, *openings[index // tally.n])
                for index, choice in enumerate(tally.choices)
            ],
            "usage": self._usage(tally.usage),
        }

    def _fold_choice(
        self, index: int, choice: Choice, prompt: Prompted, opening: dict[str, Any]
    ) -> dict[str, Any]:
        folded = {**_blank(index), **opening}
        folded["text"] += choice.text
        if self._request.logprobs is not None:
            writer = LegacyLogprobs(self._request.logprobs, len(prompt.text or ""))
            generated = writer.push(choice.scores)
            echo = folded["logprobs"] or {}
            folded["logprobs"] = {key: echo.get(key, []) + generated[key] for key in generated}
        return {**folded, **self._ending(choice.finished)}


def _blank(index: int) -> dict[str, Any]:
    return {"index": index, "text": "", "logprobs": None, "finish_reason": None}
