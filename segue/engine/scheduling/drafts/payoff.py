"""Whether drafts of a draft model pay: seconds per token with and without drafts, learned while steps run.

Measured separately by the number of running sequences: additional rows cost little with few sequences and much with
many. If drafts do not pay, they are tried again after a pause, which grows each time, and the more the trial lost.

A step without drafts is begun while the one before is open, unless drafts have just ended that: the first one after
drafts takes longer and is not compared, unless the next takes as long for the same reason.
"""

from segue.engine.scheduling.drafts.costs import Kind

_FIRST = 3  # steps of each kind before they are compared
_RECENT = 1 / 16  # the weight of the last step in a rate
_WORTH = 0.97  # drafts pay below this fraction of the time without: a smaller gain is noise
_BETWEEN = 128  # steps with drafts before some without are measured again
_SHORTEST_PAUSE, _LONGEST_PAUSE = 64, 4096  # steps
_LOST = 50  # steps of a pause for each token that the trial before it lost


class _Rate:
    """Seconds per token, of which the last steps count most.

    Of sums, not a mean of quotients: where a step gives one token or six, that would count those with one too much.
    """

    def __init__(self) -> None:
        self.count = 0
        self._seconds = self._tokens = 0.0

    def add(self, seconds: float, num_tokens: int) -> None:
        self.count += 1
        weight = max(_RECENT, 1 / self.count)
        self._seconds += (seconds - self._seconds) * weight
        self._tokens += (num_tokens - self._tokens) * weight

    @property
    def value(self) -> float:
        return self._seconds / self._tokens


class _Steps:
    """Steps with a similar number of sequences."""

    def __init__(self) -> None:
        self._drafted, self._plain = _Rate(), _Rate()
        self._pause = 0  # the last one, since drafts paid
        self._lost = 0.0  # tokens that could have come without drafts, in this trial
        self._since = 0  # steps since the other kind was measured
        self._was_begun = False  # no step was open when the last one was begun

    def wants(self) -> bool:
        if self._plain.count < _FIRST:
            return False
        if self._drafted.count < _FIRST:
            return True
        return self._since <= _BETWEEN if self._pays else self._since > self._pause

    def learn(self, kind: Kind, seconds: float, num_tokens: int) -> None:
        was_begun, self._was_begun = self._was_begun, kind == "begun"
        if kind == "plain" or (kind == "begun" and was_begun):
            self._plain.add(seconds, num_tokens)
            self._since = 0 if self._pays else self._since + 1
        elif kind != "begun" and self._plain.count:
            self._lost += seconds / max(self._plain.value, 1e-9) - num_tokens
            if kind == "drafted":
                self._learn_drafted(seconds, num_tokens)

    def _learn_drafted(self, seconds: float, num_tokens: int) -> None:
        if self._drafted.count >= _FIRST and not self._pays:
            self._drafted = _Rate()  # another trial: what was before may be long ago
        self._drafted.add(seconds, num_tokens)
        if self._pays:
            self._since, self._pause, self._lost = self._since + 1, 0, 0.0
            return
        self._since = 0
        if self._drafted.count >= _FIRST:
            pause = max(_SHORTEST_PAUSE, 2 * self._pause, int(_LOST * self._lost))
            self._pause, self._lost = min(pause, _LONGEST_PAUSE), 0.0

    @property
    def _pays(self) -> bool:
        """As far as is known: a trial may not be over."""
        if not self._plain.count or not self._drafted.count:
            return False
        return self._drafted.value < _WORTH * self._plain.value


class Payoff:
    def __init__(self) -> None:
        self._of: dict[int, _Steps] = {}

    def wants(self, num_sequences: int) -> bool:
        """Whether the next step with this many sequences should have drafts. Asking changes nothing."""
        return self._steps(num_sequences).wants()

    def learn(self, num_sequences: int, kind: Kind, seconds: float, num_tokens: int) -> None:
        """Report how long such a step took, and how many tokens it gave."""
        self._steps(num_sequences).learn(kind, seconds, num_tokens)

    def _steps(self, num_sequences: int) -> _Steps:
        return self._of.setdefault(num_sequences.bit_length(), _Steps())
