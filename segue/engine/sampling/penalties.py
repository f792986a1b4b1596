"""Penalties on tokens that occurred before; occurrences are counted incrementally."""

from collections import Counter, deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from segue.engine.seam import Logits
from segue.types import Sampling


class Occurrences:
    """How often each token occurs among the last `window` ones; −1 is all of them."""

    def __init__(self, window: int) -> None:
        self._recent: deque[int] | None = None if window < 0 else deque()
        self._window = window
        self._place: dict[int, int] = {}  # token → where it stands in the arrays
        self._ids = np.empty(64, np.intp)
        self._counts = np.empty(64, np.float32)

    @property
    def ids(self) -> NDArray[np.intp]:
        return self._ids[: len(self._place)]

    @property
    def counts(self) -> NDArray[np.float32]:
        return self._counts[: len(self._place)]

    def start(self, tokens: Sequence[int]) -> None:
        """The first tokens, all at once."""
        if self._recent is not None:
            tokens = tokens[max(len(tokens) - self._window, 0) :]
            self._recent.extend(tokens)
        for token, count in Counter(tokens).items():
            self._change(token, count)

    def push(self, token: int) -> None:
        if self._recent is not None:
            self._recent.append(token)
        self._change(token, 1)
        if self._recent is not None and len(self._recent) > self._window:
            self._change(self._recent.popleft(), -1)

    def _change(self, token: int, by: int) -> None:
        place = self._place.get(token)
        if place is None:
            place = self._place[token] = len(self._place)
            if place == self._ids.size:
                self._ids = np.concatenate([self._ids, self._ids])
                self._counts = np.concatenate([self._counts, self._counts])
            self._ids[place], self._counts[place] = token, 0
        self._counts[place] += by
        if not self._counts[place]:
            self._remove(token, place)

    def _remove(self, token: int, place: int) -> None:
        """Remove the entry; the last entry moves to its position."""
        del self._place[token]
        last = len(self._place)
        if place < last:
            moved = int(self._ids[last])
            self._place[moved] = place
            self._ids[place], self._counts[place] = moved, self._counts[last]


class Penalties:
    """The repetition penalty of Keskar et al., CTRL, and the presence and frequency penalties of OpenAI."""

    def __init__(self, sampling: Sampling) -> None:
        self._repetition = np.float32(sampling.repetition_penalty)
        self._presence = np.float32(sampling.presence_penalty)
        self._frequency = np.float32(sampling.frequency_penalty)
        self._all = Occurrences(sampling.penalty_window)
        self._counts_prompt = sampling.penalize_prompt
        self._output = self._all if self._counts_prompt else Occurrences(sampling.penalty_window)

    def start(self, prompt: Sequence[int]) -> None:
        self._all.start(prompt)

    def push(self, token: int) -> None:
        self._all.push(token)
        if not self._counts_prompt:
            self._output.push(token)

    def apply(self, logits: Logits) -> None:
        if self._repetition != 1.0:
            seen = self._all.ids
            before = logits[seen]
            logits[seen] = np.where(
                before > 0, before / self._repetition, before * self._repetition
            )
        if self._presence or self._frequency:
            seen = self._output.ids
            logits[seen] -= self._output.counts * self._frequency + self._presence
