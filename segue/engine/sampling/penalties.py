"""Penalties on tokens that occurred before; occurrences are counted incrementally."""

from collections import Counter, deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from segue.engine.seam import Logits, Repeats
from segue.types import Sampling

_ROOM = 256  # tokens that a history can take at least before it is copied


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


class History:
    """Tokens in order. What was handed out is never written to again: the array is replaced when it is full."""

    def __init__(self) -> None:
        self.tokens: NDArray[np.int64] = np.empty(0, np.int64)
        self.size = 0  # how many of them there are by now

    def start(self, tokens: Sequence[int]) -> None:
        """The first tokens, all at once."""
        self.size = len(tokens)
        self.tokens = np.empty(self.size + _ROOM, np.int64)
        self.tokens[: self.size] = tokens

    def push(self, token: int) -> None:
        if self.size == self.tokens.size:
            room = np.empty(max(self.size, _ROOM), np.int64)
            self.tokens = np.concatenate([self.tokens, room])
        self.tokens[self.size] = token
        self.size += 1


class Penalties:
    """The repetition penalty of Keskar et al., CTRL, and the presence and frequency penalties of OpenAI."""

    def __init__(self, sampling: Sampling) -> None:
        self._repetition = np.float32(sampling.repetition_penalty)
        self._presence = np.float32(sampling.presence_penalty)
        self._frequency = np.float32(sampling.frequency_penalty)
        self._window = sampling.penalty_window
        self._all = Occurrences(self._window)
        self._counts_prompt = sampling.penalize_prompt
        self._output = self._all if self._counts_prompt else Occurrences(self._window)
        self._history, self._num_prompt = History(), 0
        self._num_counted = 0  # tokens of the history that have been counted
        self._repetition_last = sampling.repetition_last
        self._drawn_with = (  # of -0.0, which `apply` leaves out, 0.0 is made: it takes nothing off
            float(self._repetition),
            float(self._presence) + 0.0,
            float(self._frequency) + 0.0,
            self._repetition_last,
        )

    def start(self, prompt: Sequence[int]) -> None:
        self._all.start(prompt)
        self._history.start(prompt if self._window < 0 else prompt[-self._window :])
        self._num_prompt = self._num_counted = self._history.size

    def push(self, token: int) -> None:
        self._history.push(token)

    def repeats(self, drawn: int | None) -> Repeats:
        """What `apply` looks at, told to a runner. `drawn`: its draw that gives one more token, which comes last."""
        end = self._history.size
        num_tokens = end if drawn is None else end + 1
        first = 0 if self._window < 0 else max(0, num_tokens - self._window)
        counted = first if self._counts_prompt else max(first, self._num_prompt)
        first = counted if self._repetition == 1.0 else first
        return Repeats(self._history.tokens, first, counted, end, *self._drawn_with, drawn)

    def apply(self, logits: Logits) -> None:
        self._count()
        if self._repetition_last:
            self._take_off(logits)
        if self._repetition != 1.0:
            seen = self._all.ids
            before = logits[seen]
            logits[seen] = np.where(
                before > 0, before / self._repetition, before * self._repetition
            )
        if not self._repetition_last:
            self._take_off(logits)

    def _take_off(self, logits: Logits) -> None:
        """The presence and frequency penalties."""
        if self._presence or self._frequency:
            seen = self._output.ids
            logits[seen] -= self._output.counts * self._frequency + self._presence

    def _count(self) -> None:
        """Count the tokens that came since the last call. Not with each token: while a runner draws, nobody asks."""
        history = self._history
        for token in history.tokens[self._num_counted : history.size].tolist():
            self._all.push(token)
            if not self._counts_prompt:
                self._output.push(token)
        self._num_counted = history.size
