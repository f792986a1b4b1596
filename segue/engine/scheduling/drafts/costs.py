"""How many draft tokens a step takes, so that tokens come fastest: learned from how long steps took.

What a step with drafts costs is told in steps without: how long it took, divided by what steps of as many sequences
took shortly before. So a longer context, another model on the same processors or a slower machine change nothing where
they change both. Of the last few such quotients the median counts.

Steps go on without the caller while nobody drafts ("One step ahead"). A draft ends that, and what it takes until steps
go ahead again is learned too.

Two things keep what is known from growing old. Where drafts do not pay as far as is known, but would if they cost as
little as is hoped for, they are tried from time to time: that costs one step in a hundred. Where every step has drafts,
a few are left out.
"""

import math
from collections import deque
from itertools import accumulate
from statistics import median
from typing import Literal

# Rows of a step with drafts: few numbers, so that what each costs is learned soon.
SIZES = (2, 4, 8, 16)
# Of a step of one row: what a further row is hoped to cost. Little, so that it is tried.
_HOPED = 0.06
_HOPED_STOP = 0.05  # of a step: what it takes until steps go ahead again
_SAMPLES = 7  # of which the median counts
_NEAR = 16  # steps: what is compared ran within so many
_COMPARED = 2  # steps with drafts that are compared for each without: one odd time must not decide
_WORTH = 1.05  # times as fast drafts must be: a smaller gain is noise
# Decisions between two trials: few after one that paid, which may have been luck, and more after each that did not;
# and so many for each step that a trial is likely to lose.
_SOON, _LATE, _LOST = 4, 64, 200
# Steps with drafts until some are left out to have steps to compare with: the longer drafts go on, the more.
_FIRST_UNCOMPARED, _MOST_UNCOMPARED = 2, 256
_LEFT_OUT = 3  # steps to compare with; the first that is begun again is none

Kind = Literal["plain", "begun", "drafted", "catching up"]
"""A step without drafts; the same, but no step was open when it was begun; a step with drafts; one for which the draft
model read so much that the time tells nothing about drafts."""


class DraftCosts:
    def __init__(self) -> None:
        self._num_steps = 0
        self._of: dict[int, _Steps] = {}  # by sequences

    def learn(self, num_sequences: int, num_rows: int, kind: Kind, seconds: float) -> None:
        """Report how long a step took that had one row for each sequence, and draft tokens, and nothing else."""
        self._num_steps += 1
        if num_sequences < SIZES[-1]:
            self._steps(num_sequences).learn(self._num_steps, num_rows, kind, seconds)

    def num_drafted(self, num_sequences: int, chances: list[float], ends_steps: bool) -> int:
        """How many draft tokens the next step should have.

        `chances`: how likely each is to be accepted, the likeliest first. `ends_steps`: steps go ahead now, and a draft
        would end that.
        """
        return self._steps(num_sequences).num_drafted(chances, ends_steps)

    def _steps(self, num_sequences: int) -> "_Steps":
        if num_sequences not in self._of:
            self._of[num_sequences] = _Steps(num_sequences)
        return self._of[num_sequences]


class _Steps:
    """Steps with so many sequences."""

    def __init__(self, num_sequences: int) -> None:
        self._num_sequences = num_sequences
        self._plain: deque[tuple[int, float]] = deque(maxlen=_SAMPLES)  # number and seconds
        self._num_to_compare = 0
        # The same of steps with drafts, with their rows, and the seconds of a step without that follow from them.
        self._drafted: deque[tuple[int, int, float]] = deque(maxlen=_SAMPLES)
        self._costs: dict[int, _Cost] = {}  # by rows, as far as steps had so many
        self._stop = _Cost(_HOPED_STOP)
        self._num_uncompared, self._most_uncompared = 0, _FIRST_UNCOMPARED
        self._num_new = self._num_left_out = 0  # of plain steps, and decisions
        self._number = 0  # of the last step
        self._waited, self._pause = 0, _SOON
        self._due = self._tried = 0  # rows: tried once steps have stopped going ahead; in this step
        self._pays_at = 0.0  # up to what cost they pay

    def learn(self, number: int, num_rows: int, kind: Kind, seconds: float) -> None:
        self._number = number
        if kind == "plain":
            self._plain.append((number, seconds))
            self._num_to_compare = min(self._num_to_compare + _COMPARED, _SAMPLES)
            self._num_new += 1
            if self._num_uncompared <= self._most_uncompared or self._num_new >= _LEFT_OUT:
                self._resume()
            return
        usual = self._usual()
        if kind == "begun":
            if usual > 0:
                self._stop.learn(number, max(0.0, seconds / usual - 1))
            return
        self._num_uncompared += 1
        is_trial, self._tried = num_rows == self._tried, 0
        if is_trial:
            usual = usual or self._usual_beside(num_rows)
            self._num_to_compare += 1
        if usual > 0 and self._num_to_compare and num_rows in SIZES:
            self._num_to_compare -= 1
            self._learn_cost(number, num_rows, max(1.0, seconds / usual))
        if usual > 0 and is_trial:
            pays = seconds / usual < self._pays_at
            self._pause = _SOON if pays else min(2 * self._pause, _LATE)
        if num_rows in self._costs:
            self._drafted.append((number, num_rows, seconds / self._costs[num_rows].known))

    def _learn_cost(self, number: int, num_rows: int, cost: float) -> None:
        if num_rows not in self._costs:
            self._costs[num_rows] = _Cost(self._known().get(num_rows, cost))
        self._costs[num_rows].learn(number, cost)

    def num_drafted(self, chances: list[float], ends_steps: bool) -> int:
        if self._num_uncompared > self._most_uncompared:
            self._num_left_out += 1
            if self._num_left_out <= 2 * _LEFT_OUT:
                return 0
            self._resume()  # no steps came that others could be compared with: later again
        stop = self._stop.known if ends_steps else 0.0
        known = self._known()
        speeds = self._speeds(chances, known, stop)
        best = max(speeds, key=speeds.__getitem__, default=0)
        speed = _WORTH * self._num_sequences
        if best and speeds[best] > speed:
            speed = speeds[best]
        else:
            best = 0
        is_due = self._due in speeds and not ends_steps
        tried = self._due if is_due else self._trial(chances, known, best, speed, stop)
        self._due, self._tried = (tried, 0) if ends_steps else (0, tried)
        return max(0, (tried or best) - self._num_sequences)

    def _trial(
        self, chances: list[float], known: dict[int, float], best: int, speed: float, stop: float
    ) -> int:
        """Rows that are to be tried in place of the best; 0: none now. `speed`: that of the best."""
        hopes = {rows: min(known[rows], self._hoped(rows)) for rows in known}
        hoped = self._speeds(chances, hopes, stop)
        others = [rows for rows in hoped if hoped[rows] > speed and rows != best]
        if not others:
            return 0
        self._waited += 1
        rows = min(others, key=self._learned_at)
        pays_at = hoped[rows] * (hopes[rows] + stop) / speed - stop
        age = self._number - self._learned_at(rows)
        is_early = self._waited < self._pause or age < _LOST * (known[rows] - pays_at)
        if is_early or not (self._usual() or self._usual_beside(rows)):
            return 0
        self._waited, self._pays_at = 0, pays_at
        return rows

    def _known(self) -> dict[int, float]:
        """The cost of steps by their rows: those that ran, and the next larger ones, guessed."""
        known: dict[int, float] = {}
        row, most = _HOPED, math.inf
        for rows in SIZES:
            more = rows - self._num_sequences
            if more <= 0:
                continue
            cost = self._costs[rows].known if rows in self._costs else 1 + row * more
            # A step of half as many rows may be known better. Twice that would do the same.
            known[rows] = min(cost, most)
            if rows not in self._costs:
                break
            row, most = (known[rows] - 1) / more, 2 * known[rows]
        return known

    def _usual(self) -> float:
        """Seconds of a step without drafts; 0: there was none for long."""
        near = [seconds for number, seconds in self._plain if number >= self._number - _NEAR]
        return median(near) if near else 0.0

    def _usual_beside(self, rows: int) -> float:
        """The same, as it follows from steps with drafts that had another number of rows."""
        oldest = self._number - _NEAR
        near = [
            seconds for number, had, seconds in self._drafted if number >= oldest and had != rows
        ]
        return median(near) if near else 0.0

    def _speeds(
        self, chances: list[float], costs: dict[int, float], stop: float
    ) -> dict[int, float]:
        """Tokens in the time of a step without drafts, by rows."""
        totals = list(accumulate(chances, initial=float(self._num_sequences)))
        return {
            rows: totals[rows - self._num_sequences] / (cost + stop)
            for rows, cost in costs.items()
            if rows - self._num_sequences < len(totals)
        }

    def _hoped(self, rows: int) -> float:
        return (1 + _HOPED * (rows - 1)) / (1 + _HOPED * (self._num_sequences - 1))

    def _learned_at(self, rows: int) -> int:
        return self._costs[rows].learned_at if rows in self._costs else 0

    def _resume(self) -> None:
        """Let steps have drafts again, if they were left out."""
        if self._num_uncompared > self._most_uncompared:
            self._most_uncompared = min(2 * self._most_uncompared, _MOST_UNCOMPARED)
        self._num_uncompared = self._num_new = self._num_left_out = 0


class _Cost:
    """The median of the last samples; a guess counts as the first."""

    def __init__(self, guess: float) -> None:
        self.known = guess
        self.learned_at = 0  # the number of the step
        self._samples = deque([guess], maxlen=_SAMPLES)

    def learn(self, number: int, sample: float) -> None:
        self._samples.append(sample)
        self.known, self.learned_at = median(self._samples), number
