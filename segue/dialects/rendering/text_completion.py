"""Events as OpenAI's `text_completion` objects: one per Delta when streamed, otherwise one for the whole answer."""

from collections.abc import Iterable
from typing import Any, Protocol

from segue.dialects.base import Call
from segue.dialects.rendering.logprobs import LegacyLogprobs, by_id, by_text, echoed, prompt_scores
from segue.dialects.rendering.tally import Choice, Meter, Tally
from segue.dialects.rendering.template import Template, hole
from segue.dialects.rendering.timings import (
    all_timings,
    timings,
    timings_of_reading,
    timings_so_far,
)
from segue.types import Delta, Done, Event, Finished, Progress, Prompted, TokenScore, Usage


def plain_usage(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def render_usage(usage: Usage) -> dict[str, Any]:
    cached = {"cached_tokens": usage.cached_tokens}
    return {**plain_usage(usage), "prompt_tokens_details": cached}


class LogprobsWriter(Protocol):
    """Writes the scores of one choice; all its objects have the same keys, each with a list."""

    def push(self, scores: Iterable[TokenScore]) -> dict[str, list[Any]]: ...


def render_progress(progress: Progress) -> dict[str, Any]:
    return {
        "total": progress.num_tokens,
        "cache": progress.num_cached,
        "processed": progress.num_read,
        "time_ms": round(progress.prompt_s * 1000),
    }


class TextCompletion:
    """The methods up to `_usage` are what other systems write differently: their classes override these."""

    def __init__(self, call: Call):
        shape = call.shape
        self._call = call
        self._request = call.request
        self._name_token = by_id if shape.get("tokens_as_ids") else by_text
        self._prompt_top: int | None = shape.get("prompt_logprobs")
        self._wants_ids: bool = shape.get("token_ids", False)
        self._include_usage: bool = shape.get("include_usage", False)
        is_metered = self._include_usage and shape.get("continuous_usage", False)
        self._meter = Meter(call.request.n) if is_metered else None
        self._timed = Tally(call.request) if shape.get("timings") else None
        self._logprobs_writers: dict[int, LogprobsWriter] = {}
        self._templates: dict[int, Template] = {}  # of a choice's chunks with text
        self._head = self._make_head()

    def _make_head(self) -> dict[str, Any]:
        """What every object begins with."""
        return {
            "id": f"cmpl-{self._call.stamp.public_id}",
            "object": "text_completion",
            "created": self._call.stamp.created,
            "model": self._call.model,
            "system_fingerprint": self._call.stamp.fingerprint,
        }

    def _blank(self, index: int) -> dict[str, Any]:
        """A choice without text, log-probabilities and finish reason."""
        return {"index": index, "text": "", "logprobs": None, "finish_reason": None}

    def _logprobs_writer(self, num_top: int, prompt: Prompted) -> LogprobsWriter:
        """For the generated tokens after this prompt."""
        return LegacyLogprobs(num_top, len(prompt.text or ""), self._name_token)

    def _echoed(self, num_top: int, prompt: Prompted) -> dict[str, list[Any]]:
        return echoed(prompt, num_top, self._name_token)

    def _ending(self, finished: Finished) -> dict[str, Any]:
        return {"finish_reason": finished.reason, "stop_reason": finished.stop}

    def _usage(self, usage: Usage) -> dict[str, Any]:
        return render_usage(usage)

    def _usage_so_far(self, meter: Meter, choice: int) -> Usage:
        """For a chunk of this choice."""
        return meter.usage

    # --- streamed --------------------------------------------------------------------------------

    def push(self, event: Event) -> list[Any]:
        if self._meter:
            self._meter.push(event)
        if self._timed:
            self._timed.push(event)
        match event:
            case Delta():
                return [self._render_delta(event)]
            case Prompted():
                return [self._chunk(choice) for choice in self._open_choices(event)]
            case Finished():
                end = self._chunk({**self._empty(event.choice), **self._ending(event)})
                return [{**end, **self._timings(event)}]
            case Progress():
                chunk = self._chunk(self._empty(event.prompt * self._request.n))
                chunk["prompt_progress"] = render_progress(event)
                if self._timed:
                    chunk["timings"] = timings_of_reading(event)
                return [chunk]
            case Done() if self._include_usage:
                return [{**self._head, "choices": [], "usage": self._usage(event.usage)}]
            case _:
                return []

    def _empty(self, index: int) -> dict[str, Any]:
        """Of a chunk without tokens. Clients add the lists up, so it has one too if they were asked for."""
        ids: dict[str, Any] = {"token_ids": []} if self._wants_ids else {}
        return {**self._blank(index), **ids}

    def _chunk(self, choice: dict[str, Any]) -> dict[str, Any]:
        chunk = {**self._head, "choices": [choice]}
        if self._include_usage:
            chunk["usage"] = self._metered(choice["index"])
        return chunk

    def _metered(self, choice: int) -> dict[str, Any] | None:
        meter = self._meter
        return None if meter is None else self._usage(self._usage_so_far(meter, choice))

    def _timings(self, event: Delta | Finished) -> dict[str, Any]:
        if self._timed is None:
            return {}
        prompt = self._timed.prompts[event.choice // self._request.n]
        if isinstance(event, Finished):
            return {"timings": timings([prompt], [event])}
        num_tokens = len(self._timed.choices[event.choice].tokens)
        return {"timings": timings_so_far(prompt, num_tokens, event)}

    def _render_delta(self, delta: Delta) -> Any:
        template = self._templates.get(delta.choice)
        if template is None:
            template = self._templates[delta.choice] = self._template(delta.choice)
        values: dict[str, Any] = {"text": delta.text}
        if self._logprobs_writers:
            scores, writer = delta.scores, self._logprobs_writers[delta.choice]
            values["logprobs"] = writer.push(scores) if scores else None
        if self._wants_ids:
            values["token_ids"] = delta.tokens
        if self._meter:
            values["usage"] = self._metered(delta.choice)
        if self._timed:
            values |= self._timings(delta)
        return template.fill(values)

    def _template(self, index: int) -> Template:
        choice = {**self._blank(index), "text": hole("text")}
        if self._logprobs_writers:
            choice["logprobs"] = hole("logprobs")
        if self._wants_ids:
            choice["token_ids"] = hole("token_ids")
        chunk = self._chunk(choice)
        if self._meter:
            chunk["usage"] = hole("usage")
        if self._timed:
            chunk["timings"] = hole("timings")
        return Template(chunk)

    def _open_choices(self, prompt: Prompted) -> list[dict[str, Any]]:
        """What a prompt's choices begin with: the prompt itself with echo, often nothing."""
        n = self._request.n
        choices = range(prompt.prompt * n, (prompt.prompt + 1) * n)
        if self._request.logprobs is not None:
            self._logprobs_writers |= {
                choice: self._logprobs_writer(self._request.num_top, prompt) for choice in choices
            }
        opening = self._opening(prompt)
        return [{**self._empty(choice), **opening} for choice in choices] if opening else []

    def _opening(self, prompt: Prompted) -> dict[str, Any]:
        opening: dict[str, Any] = {}
        if self._request.echo:
            opening["text"] = prompt.text or ""
            if self._request.logprobs is not None:
                opening["logprobs"] = self._echoed(self._request.logprobs, prompt)
        if self._prompt_top is not None:
            opening["prompt_logprobs"] = prompt_scores(prompt, self._prompt_top)
        if self._wants_ids:
            opening["prompt_token_ids"] = prompt.tokens
        return opening

    # --- in one object ---------------------------------------------------------------------------

    def fold(self, tally: Tally) -> Any:
        openings = [(prompt, self._opening(prompt)) for prompt in tally.prompts]
        return {
            **self._head,
            "choices": [
                self._fold_choice(index, choice, *openings[index // tally.n])
                for index, choice in enumerate(tally.choices)
            ],
            "usage": self._usage(tally.usage),
            **({"timings": all_timings(tally)} if self._timed else {}),
        }

    def _fold_choice(
        self, index: int, choice: Choice, prompt: Prompted, opening: dict[str, Any]
    ) -> dict[str, Any]:
        folded = {**self._blank(index), **opening}
        folded["text"] += choice.text
        if self._request.logprobs is not None:
            generated = self._logprobs_writer(self._request.num_top, prompt).push(choice.scores)
            echo = folded["logprobs"] or {}
            folded["logprobs"] = {key: echo.get(key, []) + generated[key] for key in generated}
        if self._wants_ids:
            folded["token_ids"] = choice.tokens
        return {**folded, **self._ending(choice.finished)}
