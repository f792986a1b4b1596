"""`/completion` and `/infill` as llama.cpp's server writes them: one flat object per choice."""

from typing import Any

from segue.dialects.base import Call
from segue.dialects.llamacpp.probabilities import entries
from segue.dialects.llamacpp.settings import generation_settings
from segue.dialects.rendering.tally import Choice, Tally
from segue.dialects.rendering.template import Template, hole
from segue.dialects.rendering.text_completion import render_progress
from segue.dialects.rendering.timings import timings, timings_of_reading, timings_so_far
from segue.types import Cause, Delta, Event, Finished, Progress, Prompted, Split, TokenScore

STOP_TYPES: dict[Cause, str] = {
    "eos": "eos",
    "stop_text": "word",
    "stop_token": "word",
    "max_tokens": "limit",
    "context": "limit",
    "indent": "limit",
    "time": "limit",
    "repetition": "limit",
    "constraint": "eos",
    "dead_end": "none",  # it neither ended nor met a limit
}


class Native:
    def __init__(self, call: Call):
        self._call = call
        self._request = call.request
        self._id_slot = -1 if call.request.client_slot is None else call.request.client_slot
        self._tally = Tally(call.request)
        self._known_settings: dict[str, Any] | None = None
        self._templates: dict[tuple[int, bool], Template] = {}  # of a choice's pieces; with scores

    def push(self, event: Event) -> list[Any]:
        self._tally.push(event)
        match event:
            case Delta():
                return [self._piece(event)]
            case Finished():
                return [self._whole(self._tally, event.choice, is_end_of_stream=True)]
            case Progress():
                index = event.prompt * self._request.n
                piece = self._blank(index, event.num_tokens)
                if self._call.shape["timings_per_token"]:
                    piece["timings"] = timings_of_reading(event)
                piece["prompt_progress"] = render_progress(event)
                return [piece]
            case _:
                return []

    def _piece(self, delta: Delta) -> Any:
        prompt = self._tally.prompts[delta.choice // self._request.n]
        kind = delta.choice, bool(delta.scores)
        template = self._templates.get(kind)
        if template is None:
            template = self._templates[kind] = self._template(*kind, len(prompt.tokens))
        num_tokens = len(self._tally.choices[delta.choice].tokens)
        values: dict[str, Any] = {
            "content": delta.text,
            "tokens": delta.tokens,
            "tokens_predicted": num_tokens,
        }
        if delta.scores:
            values["completion_probabilities"] = self._probabilities(delta.scores)
        if self._call.shape["timings_per_token"]:
            values["timings"] = timings_so_far(prompt, num_tokens, delta)
        return template.fill(values)

    def _template(self, index: int, has_scores: bool, num_prompt: int) -> Template:
        names = ["content", "tokens", "tokens_predicted"]
        names += ["timings"] * self._call.shape["timings_per_token"]
        names += ["completion_probabilities"] * has_scores
        return Template(self._blank(index, num_prompt) | {name: hole(name) for name in names})

    def _blank(self, index: int, num_prompt: int) -> dict[str, Any]:
        return {
            "index": index,
            "content": "",
            "tokens": [],
            "stop": False,
            "id_slot": self._id_slot,
            "tokens_predicted": len(self._tally.choices[index].tokens),
            "tokens_evaluated": num_prompt,
        }

    def _probabilities(self, scores: tuple[TokenScore, ...]) -> list[dict[str, Any]]:
        return entries(scores, self._request)

    def fold(self, tally: Tally) -> Any:
        answers = [self._whole(tally, index) for index in range(len(tally.choices))]
        return answers[0] if len(answers) == 1 else answers

    def _settings(self, prompt: Prompted) -> dict[str, Any]:
        """The same of all choices, so there is one object of them: lists of biases are long."""
        if self._known_settings is None:
            self._known_settings = generation_settings(self._call, prompt.preserved)
        return self._known_settings

    def _whole(self, tally: Tally, index: int, is_end_of_stream: bool = False) -> dict[str, Any]:
        """The last object of a choice. In a stream, text and tokens were in earlier objects, so they are empty here."""
        choice, prompt = tally.choices[index], tally.prompts[index // tally.n]
        finished = choice.finished
        is_telling = not is_end_of_stream
        whole: dict[str, Any] = {
            "index": index,
            "content": choice.text if is_telling else "",
            "tokens": choice.tokens if is_telling and self._call.shape["return_tokens"] else [],
            "id_slot": self._id_slot,
            "stop": True,
            "model": self._call.model,
            "tokens_predicted": finished.num_tokens,
            "tokens_evaluated": len(prompt.tokens),
            "generation_settings": self._settings(prompt),
            "prompt": prompt.text or "",
            "has_new_line": "\n" in choice.text,
            "truncated": _is_truncated(prompt, finished),
            "stop_type": STOP_TYPES[finished.cause],
            "stopping_word": finished.stop if isinstance(finished.stop, str) else "",
            "tokens_cached": _num_held(prompt, choice),
            "timings": timings([prompt], [finished]),
        }
        if prompt.split is not None:
            whole["infill"] = _told(prompt, prompt.split)
        if is_telling and self._request.logprobs is not None:
            whole["completion_probabilities"] = self._probabilities(tuple(choice.scores))
        wanted: tuple[str, ...] = self._call.shape["response_fields"]
        return _flat(whole, wanted) if wanted else whole


def _told(prompt: Prompted, split: Split) -> dict[str, Any]:
    """How the gap was filled, and how many tokens of prefix, suffix and snippets fitted."""
    shares = {name: getattr(split, name) for name in split.__struct_fields__}
    fitted = {name: {"kept": s.kept, "given": s.given} for name, s in shares.items() if s.given}
    return {"way": prompt.infill, **fitted}


def _num_held(prompt: Prompted, choice: Choice) -> int:
    """Tokens whose KV could serve the next request: the last one drawn was never computed."""
    finished = choice.finished
    return len(prompt.tokens) + max(finished.num_tokens - 1, 0) - finished.num_dropped


def _is_truncated(prompt: Prompted, finished: Finished) -> bool:
    """Whether prompt and answer are not all that the context held, or not all that there would be."""
    return finished.cause == "context" or prompt.num_dropped + finished.num_dropped > 0


def _flat(whole: dict[str, Any], paths: tuple[str, ...]) -> dict[str, Any]:
    """Only these members, under their paths: `timings/prompt_n` is in an inner object. Unknown paths are left out."""
    flat: dict[str, Any] = {}
    for path in paths:
        value: Any = whole
        for part in path.split("/"):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            flat[path] = value
    return flat
