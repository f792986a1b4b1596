"""`/v1/completions` as llama.cpp's server writes it: the last chunk of each choice has usage and timings."""

from collections import Counter
from typing import Any

from segue.dialects.base import Call
from segue.dialects.llamacpp.probabilities import entries
from segue.dialects.rendering.logprobs import LegacyLogprobs, echoed
from segue.dialects.rendering.tally import Tally
from segue.dialects.rendering.template import Template, hole
from segue.dialects.rendering.text_completion import render_progress, render_usage
from segue.dialects.rendering.timings import (
    all_timings,
    timings,
    timings_of_reading,
    timings_so_far,
)
from segue.types import (
    CompletionRequest,
    Delta,
    Done,
    Event,
    Finished,
    Progress,
    Prompted,
    TokenScore,
    Usage,
)


def fingerprint(call: Call) -> str:
    """In llama.cpp's form, which begins with `b` and a build number."""
    return f"b0-{call.stamp.fingerprint}"


class Logprobs:
    """Both layouts in one object: the chat entries the server sends, the lists its manual shows."""

    def __init__(self, request: CompletionRequest, prompt: Prompted):
        start = len(prompt.text or "") if request.echo else 0
        self._request = request
        self._legacy = LegacyLogprobs(request.logprobs or 0, start)

    def push(self, scores: tuple[TokenScore, ...]) -> dict[str, list[Any]]:
        return {"content": entries(scores, self._request), **self._legacy.push(scores)}

    def echo(self, prompt: Prompted) -> dict[str, list[Any]]:
        """The prompt's own tokens, which stand before all others."""
        scores = entries(prompt.scores or (), self._request)
        return {"content": scores, **echoed(prompt, self._request.logprobs or 0)}


class Completion:
    def __init__(self, call: Call):
        self._request = call.request
        self._prompts: dict[int, Prompted] = {}
        self._logprobs: dict[int, Logprobs] = {}
        self._tells_timings: bool = call.shape["timings_per_token"]
        self._num_tokens: Counter[int] = Counter()  # shown of each choice
        self._num_open = len(call.request.prompts) * call.request.n
        self._num_told = 0  # completion tokens of the choices that were closed
        self._last: Finished | None = None  # the last choice of a search, until all is counted
        self._templates: dict[int, Template] = {}  # of a choice's chunks with text
        self._head: dict[str, Any] = {
            "created": call.stamp.created,
            "model": call.model,
            "system_fingerprint": fingerprint(call),
            "object": "text_completion",
        }
        self._id = {"id": f"cmpl-{call.stamp.public_id}"}

    def push(self, event: Event) -> list[Any]:
        match event:
            case Delta():
                return [self._render_delta(event)]
            case Progress():
                blank = _choice(event.prompt * self._request.n, "", None)
                told = {"timings": timings_of_reading(event)} if self._tells_timings else {}
                told["prompt_progress"] = render_progress(event)
                return [self._chunk(blank, **told)]
            case Prompted():
                return self._open(event)
            case Finished():
                self._num_open -= 1
                if not self._num_open and self._prompt(event).infill == "ranked":
                    self._last = event
                    return []
                return [self._close(event, event.num_tokens)]
            case Done() if self._last:
                return [self._close(self._last, event.usage.completion_tokens - self._num_told)]
            case _:
                return []

    def _chunk(self, choice: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"choices": [choice], **self._head, **self._id, **more}

    def _render_delta(self, delta: Delta) -> Any:
        template = self._templates.get(delta.choice)
        if template is None:
            template = self._templates[delta.choice] = self._template(delta.choice)
        prompt = self._prompt(delta)
        logprobs = self._writer(delta.choice, prompt).push(delta.scores) if delta.scores else None
        values: dict[str, Any] = {"text": delta.text, "logprobs": logprobs}
        if self._tells_timings:
            self._num_tokens[delta.choice] += len(delta.tokens)
            values["timings"] = timings_so_far(prompt, self._num_tokens[delta.choice], delta)
        return template.fill(values)

    def _template(self, index: int) -> Template:
        choice = _choice(index, hole("text"), hole("logprobs"))
        timed = {"timings": hole("timings")} if self._tells_timings else {}
        return Template(self._chunk(choice, **timed))

    def _writer(self, choice: int, prompt: Prompted) -> Logprobs:
        writer = self._logprobs.get(choice)
        if writer is None:
            writer = self._logprobs[choice] = Logprobs(self._request, prompt)
        return writer

    def _open(self, prompt: Prompted) -> list[Any]:
        self._prompts[prompt.prompt] = prompt
        if not self._request.echo:
            return []
        n = self._request.n
        return [
            self._chunk(
                _choice(
                    choice,
                    prompt.text or "",
                    self._writer(choice, prompt).echo(prompt) if prompt.scores else None,
                )
            )
            for choice in range(prompt.prompt * n, (prompt.prompt + 1) * n)
        ]

    def _prompt(self, event: Delta | Finished) -> Prompted:
        return self._prompts[event.choice // self._request.n]

    def _close(self, finished: Finished, num_tokens: int) -> dict[str, Any]:
        """`num_tokens`: of its usage. Candidates that a search drew and dropped count with its last choice."""
        self._num_told += num_tokens
        prompt = self._prompt(finished)
        usage = Usage(len(prompt.tokens), num_tokens, prompt.num_cached)
        choice = _choice(finished.choice, "", None, finished.reason)
        return self._whole([choice], usage, timings([prompt], [finished]))

    def fold(self, tally: Tally) -> Any:
        choices = [self._fold_choice(tally, index) for index in range(len(tally.choices))]
        return self._whole(choices, tally.usage, all_timings(tally))

    def _whole(self, choices: list[Any], usage: Usage, timings: dict[str, Any]) -> dict[str, Any]:
        told = {"usage": _render_usage(usage)}
        return {"choices": choices, **self._head, **told, **self._id, "timings": timings}

    def _fold_choice(self, tally: Tally, index: int) -> dict[str, Any]:
        choice, prompt = tally.choices[index], tally.prompts[index // tally.n]
        text, logprobs, echo = choice.text, None, self._request.echo
        if echo:
            text = (prompt.text or "") + text
        if self._request.logprobs is not None:
            writer = self._writer(index, prompt)
            logprobs = writer.push(tuple(choice.scores))
            if echo:
                logprobs = {key: rows + logprobs[key] for key, rows in writer.echo(prompt).items()}
        return _choice(index, text, logprobs, choice.finished.reason)


def _render_usage(usage: Usage) -> dict[str, Any]:
    """In its order: what was generated comes first."""
    return {"completion_tokens": usage.completion_tokens, **render_usage(usage)}


def _choice(index: int, text: Any, logprobs: Any, reason: str | None = None) -> dict[str, Any]:
    return {"text": text, "index": index, "logprobs": logprobs, "finish_reason": reason}
