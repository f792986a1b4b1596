"""Collects the chunks of a streamed answer, and measures its speed. Pure, except for the clock it is given."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Chunk = dict[str, Any]  # of an answer of the root dialect


@dataclass
class ChoiceText:
    """One choice so far."""

    text: str = ""
    tokens: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    finish_reason: str | None = None


class Folding:
    """Takes chunks as they arrive. `seed`, `usage` and `fingerprint` are set by the chunks that hold them."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.choices: dict[int, ChoiceText] = {}
        self.seed: int | None = None
        self.ignored: list[str] = []  # fields, and keywords of a schema, that had no effect
        self.usage: dict[str, Any] = {}
        self.fingerprint: str | None = None
        self.model = ""
        self._clock = clock
        self._begun = clock()
        self._first: float | None = None
        self._last = self._begun

    def push(self, chunk: Chunk) -> None:
        self.ignored += filter(None, chunk.get("ignored", "").split(", "))
        if "seed" in chunk:
            self.seed = chunk["seed"]
            if chunk.get("begins"):  # until now, the model was loaded
                self._begun = self._clock()
            return
        self.model = chunk.get("model", self.model)
        self.fingerprint = chunk.get("system_fingerprint") or self.fingerprint
        self.usage = chunk.get("usage") or self.usage
        for choice in chunk.get("choices", ()):
            self._add(choice)

    def _add(self, choice: dict[str, Any]) -> None:
        said = self.choices.setdefault(choice["index"], ChoiceText())
        text, scored = choice.get("text") or "", choice.get("logprobs") or {}
        said.text += text
        said.tokens += choice.get("token_ids") or ()
        said.names += scored.get("tokens") or ()
        said.logprobs += scored.get("token_logprobs") or ()
        said.finish_reason = choice.get("finish_reason") or said.finish_reason
        if text or choice.get("token_ids"):
            self._last = self._clock()
            self._first = self._last if self._first is None else self._first

    @property
    def texts(self) -> list[str]:
        return [self.choices[index].text for index in sorted(self.choices)]

    def stats(self) -> str:
        """One line for people."""
        tokens = self.usage.get("completion_tokens") or sum(
            len(said.tokens) for said in self.choices.values()
        )
        words = [f"{tokens} tokens"]
        if self._first is not None:
            words.append(f"first after {(self._first - self._begun) * 1000:.0f} ms")
            if self._last > self._first and tokens > 1:
                words.append(f"{(tokens - 1) / (self._last - self._first):.1f} tokens/s")
        if self.usage:
            details = self.usage.get("prompt_tokens_details")
            cached = details.get("cached_tokens", 0) if isinstance(details, dict) else 0
            words.append(f"prompt {self.usage.get('prompt_tokens', 0)} tokens, {cached} cached")
        if self.seed is not None:
            words.append(f"seed {self.seed}")
        ends = {said.finish_reason for said in self.choices.values()}
        return " · ".join([*words, *(f"ended by {end}" for end in sorted(filter(None, ends)))])

    def as_json(self) -> dict[str, Any]:
        """The answer as a server gives it without streaming."""
        return {
            "object": "text_completion",
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            "seed": self.seed,
            "choices": [
                {
                    "index": index,
                    "text": said.text,
                    "tokens": said.tokens,
                    "finish_reason": said.finish_reason,
                    **({"token_logprobs": said.logprobs} if said.logprobs else {}),
                }
                for index, said in sorted(self.choices.items())
            ],
            "usage": self.usage,
        }
