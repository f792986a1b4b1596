"""Whether drafts of a draft model pay: seconds per token with and without drafts, measured while steps run.

Measured separately by the number of running sequences: additional rows cost little with few sequences and much with
many. If drafts do not pay, they are tried again after a pause, which grows each time.
"""

_FIRST = 3  # steps of each kind before they are compared
_RECENT = 0.2  # the weight of the last step in the running mean
_WORTH = 0.97  # drafts pay below this fraction of the time without: a smaller gain is noise
_BETWEEN = 64  # steps with drafts before one without is measured again
_SHORTEST_PAUSE, _LONGEST_PAUSE = 64, 4096  # steps


class _Mean:
    def __init__(self) -> None:
        self.count = 0
        self.value = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.value += (value - self.value) * max(_RECENT, 1 / self.count)


class _Class:
    """Steps with a similar number of sequences."""

    def __init__(self) -> None:
        self.with_drafts, self.without = _Mean(), _Mean()
        self._pause = _SHORTEST_PAUSE
        self._since = 0  # steps since the other kind was measured

    def wants(self) -> bool:
        self._since += 1
        if self.without.count < _FIRST:
            return False
        if self.with_drafts.count < _FIRST:
            return True
        if self.with_drafts.value < _WORTH * self.without.value:
            self._pause = _SHORTEST_PAUSE
            if self._since > _BETWEEN:
                self._since = 0
                return False
            return True
        if self._since > self._pause:
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            self._since, self.with_drafts = 0, _Mean()
            return True
        return False


class Payoff:
    def __init__(self) -> None:
        self._classes: dict[int, _Class] = {}

    def wants(self, num_sequences: int) -> bool:
        """Whether the next step with this many sequences should have drafts."""
        return self._of(num_sequences).wants()

    def learn(self, num_sequences: int, had_drafts: bool, seconds: float) -> None:
        """Report the seconds per token of such a step."""
        steps = self._of(num_sequences)
        (steps.with_drafts if had_drafts else steps.without).add(seconds)

    def _of(self, num_sequences: int) -> _Class:
        return self._classes.setdefault(num_sequences.bit_length(), _Class())
