"""How many rows of prompts a step takes, so that nobody waits long for it.

Beside others that decode a step may take `_TIMES` as long as without a prompt, or `_TARGET_S`, whichever is longer.
Alone it may take `_LONGEST_S`: who comes or leaves meanwhile waits for its end, and a step of minutes, as a large model
on few cores would make of a whole chunk, would count as hung. How many rows fit is learned from the steps that ran, so
it follows the model, the machine and what else runs there. Answers do not depend on it: a prompt may be read in any
chunks.
"""

from collections import deque
from statistics import median

# Eight tokens a second are more than people read.
_TARGET_S = 0.125
# Of a slow model it is what a step of its own takes that counts: prompts get at least three quarters of the time.
_TIMES = 4
_LONGEST_S = 10.0
_LEAST = 16  # rows: a prompt is always read on, and with fewer a step's own work would be much of the cost
_FIRST = 64  # of the first step: nothing is known yet
_SAMPLE = 128  # rows of prompts that the cost of one is taken from: the last ones
_STEPS = 9  # without prompts, of which the median counts


class Pace:
    def __init__(self, most_rows: int) -> None:
        self._most = most_rows
        self._without: dict[int, deque[tuple[int, float]]] = {}  # rows and seconds, by their number
        self._prompts: deque[tuple[int, float]] = deque()  # the same, of prompts alone
        self._num_sampled = 0

    def learn(self, num_rows: int, num_prompt_rows: int, seconds: float) -> None:
        """Report how long a step took, all that was done for it included."""
        num_others = num_rows - num_prompt_rows
        if not num_prompt_rows:
            steps = self._without.setdefault(num_rows.bit_length(), deque(maxlen=_STEPS))
            steps.append((num_rows, seconds))
            return
        others_s = self._without_s(num_others) if num_others else 0.0
        self._prompts.append((num_prompt_rows, max(0.0, seconds - others_s)))
        self._num_sampled += num_prompt_rows
        while self._num_sampled - self._prompts[0][0] >= _SAMPLE:
            self._num_sampled -= self._prompts.popleft()[0]

    def rows(self, num_decoding: int) -> int:
        """How many rows of prompts the next step may take beside so many sequences that decode."""
        row_s = self._row_s
        if not row_s:
            return self._most if self._prompts else min(self._most, _FIRST)
        allowed_s = _LONGEST_S
        if num_decoding:
            without_s = self._without_s(num_decoding)
            allowed_s = min(allowed_s, max(_TARGET_S, _TIMES * without_s) - without_s)
        return int(min(self._most, max(_LEAST, allowed_s / row_s)))

    @property
    def _row_s(self) -> float:
        """What a prompt's row takes; 0: not known."""
        return sum([seconds for _, seconds in self._prompts]) / max(1, self._num_sampled)

    def _without_s(self, num_rows: int) -> float:
        """What a step of so many rows takes without prompts; if none had about as many, a guess from smaller ones."""
        known = [size for size in self._without if size <= num_rows.bit_length()]
        if not known:
            return num_rows * self._row_s
        steps = self._without[max(known)]
        took_s = median([seconds for _, seconds in steps])
        if max(known) == num_rows.bit_length():
            return took_s
        return took_s + (num_rows - steps[-1][0]) * self._row_s
