"""Whether a text has begun to repeat itself: its last tokens are one pattern, several times in a row."""

import numpy as np

from segue.types import Repetition


class RepetitionWatch:
    """Sees the tokens of one choice, each once.

    A pattern of `size` tokens stands there `count` times in a row when the last size × (count - 1) tokens each equal
    the one `size` before. So one number per size is kept: how many of the last tokens do, in a row.
    """

    def __init__(self, how: Repetition, min_tokens: int, max_tokens: int) -> None:
        """Nothing ends before `min_tokens`; a choice of `max_tokens` has no room for larger patterns than it needs."""
        largest = min(how.max_size, max_tokens // how.min_count)
        sizes = np.arange(how.min_size, largest + 1)
        self._smallest = how.min_size
        self._needed = sizes * (how.min_count - 1)
        self._runs = np.zeros_like(sizes)
        self._last = np.full(max(largest, 1), -1)  # the last token first; no token is -1
        self._num_exempt = min_tokens - 1

    def push(self, token: int) -> bool:
        """One more token; whether the text repeats itself now."""
        self._runs = (self._runs + 1) * (self._last[self._smallest - 1 :] == token)
        self._last[1:] = self._last[:-1]
        self._last[0] = token
        self._num_exempt -= 1
        return self._num_exempt < 0 and bool((self._runs >= self._needed).any())
