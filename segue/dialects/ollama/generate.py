"""`/api/generate`: the prompt in the model's chat template, and the answer as lines of JSON with durations."""

import contextlib
from typing import Any

from msgspec.structs import replace

from segue.dialects.base import Call
from segue.dialects.rendering.chat_logprobs import entry
from segue.dialects.rendering.dates import timestamp
from segue.dialects.rendering.tally import Choice, Tally
from segue.dialects.templates import chat_template, go_template
from segue.errors import InvalidField
from segue.types import CompletionRequest, Delta, Done, Event, ModelInfo, Prompt, TokenScore

LEAST_NS = 1000  # of an answer that came in one step, as llama.cpp tells it

# --- the prompt ----------------------------------------------------------------------------------


def word_prompt(call: Call, info: ModelInfo) -> CompletionRequest:
    """Without `raw` the prompt is put into the model's chat template, after any earlier context.

    What stands around a cursor is no question: the engine lays it out by the model's own tokens.
    """
    if call.shape["raw"] or call.request.infill:
        return call.request
    (asked,) = call.request.prompts
    text = _worded(call, info, "".join(map(str, asked.parts)))
    if context := call.shape.get("context"):
        _check(context, info)
        prompt = Prompt((context, _continued(text, info.bos_token)))
    else:
        has_bos = bool(info.bos_token) and text.startswith(info.bos_token)
        prompt = Prompt((text,), add_special=not has_bos)
    return replace(call.request, prompts=(prompt,))


def _check(context: tuple[int, ...], info: ModelInfo) -> None:
    if max(context) >= info.vocab_size:
        known = f"the model's ids are 0 to {info.vocab_size - 1}"
        raise InvalidField(f"context holds token id {max(context)}, but {known}", "context")


def _continued(text: str, bos: str) -> str:
    """The text without BOS, for what stands before it has begun already.

    Some models have a BOS that begins each message; it is no beginning of the whole, and stays.
    """
    rest = text.removeprefix(bos)
    return text if bos in rest else rest


def _worded(call: Call, info: ModelInfo, prompt: str) -> str:
    system = call.shape.get("system", "")
    if template := call.shape.get("template"):
        suffix = call.shape.get("suffix", "")
        values = {".System": system, ".Prompt": prompt, ".Suffix": suffix}
        return go_template.render(template, values)
    if info.chat_template is None:
        return _together(system, prompt)
    return _as_chat(call, info, system, prompt)


def _together(system: str, prompt: str) -> str:
    return f"{system}\n\n{prompt}" if system else prompt


def _as_chat(call: Call, info: ModelInfo, system: str, prompt: str) -> str:
    """Some templates refuse a system message, or leave it out: it stands before the prompt then."""

    def rendered(*messages: tuple[str, str]) -> str:
        named = [{"role": role, "content": content} for role, content in messages]
        think = call.shape.get("think")
        return chat_template.render(info, named, call.stamp.now, enable_thinking=think)

    if system:
        with contextlib.suppress(InvalidField):
            text = rendered(("system", system), ("user", prompt))
            if text != rendered(("user", prompt)):
                return text
    return rendered(("user", _together(system, prompt)))


# --- the answer ----------------------------------------------------------------------------------


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


class Generation:
    def __init__(self, call: Call):
        self._call = call
        self._tally = Tally(call.request)

    def push(self, event: Event) -> list[Any]:
        """A line for each Delta that says something: tokens that end an answer, or begin a stop text, do not."""
        self._tally.push(event)
        if isinstance(event, Delta):
            line = self._line(event.text, False, event.scores)
            return [line] if event.text or "logprobs" in line else []
        return [self._last("", self._tally, None)] if isinstance(event, Done) else []

    def fold(self, tally: Tally) -> Any:
        if not tally.choices:
            return self._last("", tally, None)
        (choice,) = tally.choices
        return self._last(choice.text, tally, tuple(choice.scores))

    def _line(
        self, text: str, is_last: bool, scores: tuple[TokenScore, ...] | None
    ) -> dict[str, Any]:
        line = {
            "model": self._call.model,
            "created_at": timestamp(self._call.stamp.now()),
            "response": text,
            "done": is_last,
        }
        shown = [score for score in scores or () if score.is_shown]  # not of the end token
        if shown and self._call.request.logprobs is not None:
            line["logprobs"] = [self._scored(score) for score in shown]
        return line

    def _scored(self, score: TokenScore) -> dict[str, Any]:
        num_top = self._call.request.logprobs or 0
        scored = entry(score, num_top, with_id=False)
        if not num_top:
            del scored["top_logprobs"]
        return scored

    def _last(
        self, text: str, tally: Tally, scores: tuple[TokenScore, ...] | None
    ) -> dict[str, Any]:
        line = self._line(text, True, scores)
        if not tally.choices:
            return {**line, "done_reason": "unload" if self._call.keep_s == 0 else "load"}
        (prompt,), (choice,) = tally.prompts, tally.choices
        line["done_reason"] = choice.finished.reason
        if not self._call.shape["raw"]:
            line["context"] = [*prompt.tokens, *choice.tokens]
        return {**line, **self._durations(tally, choice)}

    def _durations(self, tally: Tally, choice: Choice) -> dict[str, int]:
        """In nanoseconds. Time spent neither on the prompt nor on the answer counts as loading. Zeros are left out, but
        not of cached tokens (as in Ollama 0.33.3). An answer has its duration even if it came in one step: clients
        divide by it."""
        total_s = max(0.0, self._call.stamp.now() - self._call.stamp.arrived)
        read_s, written_s = choice.finished.prompt_s, choice.finished.decode_s
        num_written = tally.usage.completion_tokens
        metrics = {
            "total_duration": _nanoseconds(total_s),
            "load_duration": _nanoseconds(max(0.0, total_s - read_s - written_s)),
            "prompt_eval_count": tally.usage.prompt_tokens,
            "prompt_eval_duration": _nanoseconds(read_s),
            "eval_count": num_written,
            "eval_duration": max(_nanoseconds(written_s), LEAST_NS if num_written else 0),
        }
        cached = {"prompt_eval_cached_count": tally.usage.cached_tokens}
        return {name: value for name, value in metrics.items() if value} | cached
